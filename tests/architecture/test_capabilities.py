"""Every promise has tests, and they notice when it is broken."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities import CAPABILITIES
from tests.promises import ids, slowness

pytestmark = pytest.mark.capability(*CAPABILITIES)
ROOT = Path(__file__).resolve().parents[2]
MUTATED = "GATEHOUSE_MUTATION" in os.environ
UNNOTICED, NOTHING_RAN = 0, 5


def pytest_run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Another pytest, on embedded defaults, that leaves this one alone."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "DATABASE_URL", "GATEHOUSE_"))
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        # The tables as the models say, which takes a fraction of the time; that migrations say the same is checked.
        "--no-migrations",
        "--ignore",
        str(Path(__file__)),
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT, env={**kept, **environ}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("promise", CAPABILITIES)
def test_the_tests_of_an_id_fail_when_it_is_broken(promise: str, request: pytest.FixtureRequest) -> None:
    mutation = CAPABILITIES[promise].mutation
    nearest, *others = files_of(promise, request.session.items) or [""]
    run = mutated_run(promise, nearest)
    if others and run.returncode in {UNNOTICED, NOTHING_RAN}:
        run = mutated_run(promise, *others)
    assert run.returncode != NOTHING_RAN, f"{promise} has no test that runs here"
    assert run.returncode == 1, (
        f"{promise}: its tests do not notice {mutation}\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    )


def mutated_run(promise: str, *files: str) -> subprocess.CompletedProcess[str]:
    mutation = CAPABILITIES[promise].mutation
    path = os.pathsep.join(filter(None, [str(ROOT / "tests" / "mutation"), os.environ.get("PYTHONPATH", "")]))
    return pytest_run(
        "-x", "--capability", promise, *filter(None, files), GATEHOUSE_MUTATION=mutation, PYTHONPATH=path
    )  # fmt: skip


def files_of(promise: str, items: list[pytest.Item]) -> list[str]:
    """Where its tests are, so that no other file is read; none, which is all of them, when this file runs alone.

    That which is known to notice comes first, or is named most like the broken module: it notices as a rule, and the
    others are not even read.
    """
    found: dict[Path, int] = {}
    for item in items:
        if promise in ids(item) and item.path != Path(__file__):
            found[item.path] = min(slowness(item), found.get(item.path, slowness(item)))
    broken, known = words(CAPABILITIES[promise].mutation.partition(":")[0]), ROOT / CAPABILITIES[promise].noticed_in

    def order(path: Path) -> tuple[bool, int, int, Path]:
        return path != known, found[path], -len(broken & words(path.relative_to(ROOT))), path

    return [str(path) for path in sorted(found, key=order)]


def words(name: object) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", str(name))) - {"test", "tests"}


def test_every_capability_has_a_sentence_and_a_well_formed_mutation() -> None:
    for promise, said in CAPABILITIES.items():
        assert re.fullmatch(r"(NHI|AUD|MCP|SUP|A2A|CON|OPS)-\d\d", promise)
        assert said.sentence.endswith(".")
        assert re.fullmatch(r"[a-z0-9_.]+:[A-Za-z_.]+ = (raise|allow|return .+)", said.mutation)
        assert not said.noticed_in or f'"{promise}"' in (ROOT / said.noticed_in).read_text(encoding="utf-8"), promise
