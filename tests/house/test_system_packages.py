"""`make test` brings Chromium where apt may install it, and says in one sentence what to type where it may not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.house import ROOT

pytestmark = pytest.mark.capability("OPS-01")

SCRIPT = ROOT / "requirements" / "system.py"
#: Stands in for apt-get: it notes how it was called, and "installs" an empty chromium.
APT = """#!/bin/sh
echo "$@" >> {place}/calls
case "$*" in *install*) printf '#!/bin/sh\\n' > {place}/chromium; /bin/chmod +x {place}/chromium;; esac
"""


def bring(place: Path) -> subprocess.CompletedProcess[str]:
    """On a machine that has nothing but what lies in `place`."""
    command = [sys.executable, "-I", str(SCRIPT), "chromium"]
    return subprocess.run(command, env={"PATH": str(place)}, capture_output=True, text=True, check=False)


def test_without_apt_it_says_what_to_type_and_lets_the_rest_run(tmp_path: Path) -> None:
    result = bring(tmp_path)
    advice = "browser tests are skipped without it. On Debian: sudo apt-get install chromium"
    assert (result.returncode, result.stderr) == (0, f"chromium is not installed, and {advice}\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="apt asks others than root for a password")
def test_where_apt_may_it_installs_it_once(tmp_path: Path) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(APT.format(place=tmp_path))
    apt.chmod(0o755)
    assert bring(tmp_path).stderr == "Installing chromium with apt ...\n"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[3] for call in calls] == ["update", "install"]
    assert bring(tmp_path).stderr == ""
    assert (tmp_path / "calls").read_text().splitlines() == calls
