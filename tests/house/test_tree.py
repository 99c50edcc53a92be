"""What is committed works anywhere: it names no package registry, and no place on somebody's machine."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.services.house import ROOT

pytestmark = pytest.mark.capability("OPS-01")

# Written in parts, for this file is looked at too.
REGISTRIES = (
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "registry" + r"\.(?:npmjs|yarnpkg)",
    "--(?:extra-)?" + "index-url",
)
PLACES = (r"/ro" + "ot/", r"/ho" + r"me/[a-z]", r"/wo" + r"rk/", r"/Us" + "ers/")
FORBIDDEN = re.compile("|".join((*REGISTRIES, *(rf"(?<![\w./-]){place}" for place in PLACES))))


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_registry_or_a_place_on_this_machine() -> None:
    found = []
    for path in tracked():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_requirements_are_pinned_and_hashed_and_hold_no_address(path: Path) -> None:
    text = path.read_text()
    pinned = re.findall(r"^([A-Za-z0-9._-]+(?:\[[^]]*\])?)==[^\s;]+", text, re.MULTILINE)
    named = re.findall(r"^[A-Za-z0-9].*$", text, re.MULTILINE)
    assert "://" not in text
    assert len(pinned) == len(named) > 0
    assert all("--hash=sha256:" in block for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:])
