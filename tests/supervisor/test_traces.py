"""What a run leaves, and what it can learn of other runs."""

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from common.process import executable_allowlist
from config import environment
from supervisor.models import Agent, Execution
from supervisor.runner import places, removal
from tests.supervisor.waiting import until, until_over, until_running

pytestmark = [pytest.mark.capability("SUP-02"), pytest.mark.django_db(transaction=True)]
DEEP = """#!/usr/bin/env python3
import os
for n in range(1500):
    os.mkdir("d"); os.chdir("d")
"""
SHUT = "#!/bin/sh\nmkdir -p a/b; touch a/b/c; ln -s /etc/passwd a/link; chmod 000 a/b a .\n"


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("script", [DEEP, SHUT], ids=["deep", "shut"])
def test_whatever_a_run_leaves_is_taken_away_and_its_slot_is_free(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], script: str
) -> None:
    run = until_over(submit(make_agent(script, access_type="read-write")))
    assert (run.status, run.slot) == ("success", None)
    assert places.found() == []
    assert list(removal.bin_in(places.root()).iterdir()) == []


def test_removal_follows_no_link(tmp_path: Path) -> None:
    kept, place = tmp_path / "kept", tmp_path / "place"
    (kept / "inside").mkdir(parents=True)
    (kept / "file").write_text("kept")
    kept.chmod(0o755)
    place.mkdir()
    (place / "directory").symlink_to(kept)
    (place / "file").symlink_to(kept / "file")
    removal.remove(place, removal.bin_in(tmp_path))
    assert not place.exists()
    assert sorted(path.name for path in kept.iterdir()) == ["file", "inside"]
    assert (kept / "file").read_text() == "kept"
    assert kept.stat().st_mode & 0o777 == 0o755


def test_one_that_resists_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn, other = tmp_path / "stubborn", tmp_path / "other"
    stubborn.mkdir()
    other.mkdir()
    (stubborn / "file").touch()
    unlink = os.unlink

    def refuses(name: str, **where: int) -> None:
        if name == "file":
            raise PermissionError
        unlink(name, **where)

    monkeypatch.setattr(os, "unlink", refuses)
    removal.remove(stubborn, removal.bin_in(tmp_path))
    removal.remove(other, removal.bin_in(tmp_path))
    assert not stubborn.exists()
    assert not other.exists()
    assert len(list(removal.bin_in(tmp_path).iterdir())) == 1


def test_workers_that_lend_an_example_at_once_leave_it_whole_and_new(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RUN_AS = environment.Account("nobody", 65534, 65534)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(executable_allowlist, "EXAMPLES_DIRECTORY", tmp_path / "examples")
    script = tmp_path / "examples" / "agents" / "own.py"
    script.parent.mkdir(parents=True)
    texts = [f"{number}{'.' * 200_000 * number}{number}" for number in range(5)]
    for text in texts:
        script.write_text(text)
        with ThreadPoolExecutor(8) as workers:
            copies = {*workers.map(lambda _: Path(places.lent(str(script))), range(16))}
        (copy,) = copies
        assert copy != script
        assert copy.read_text() == text
    assert sorted(path.name for path in copy.parent.iterdir()) == [".lock", "own.py"]
    assert (copy.parent / ".lock").stat().st_mode & 0o777 == 0o600
    secret = script.with_name("secret.py")
    secret.symlink_to("/etc/passwd")
    for other in (secret, script.parent / ".." / "agents" / "own.py", script.with_name("gone.py")):
        assert places.lent(str(other)) == str(other)


@pytest.mark.skipif(os.geteuid() != 0, reason="Without root every run has the account of Gatehouse itself")
@pytest.mark.usefixtures("runner")
def test_a_run_cannot_read_the_token_of_another(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    """They have one account; that they have groups of their own keeps them out of each other's memory."""
    victim = until_running(submit(make_agent("#!/bin/sh\nexec sleep 30\n", name="victim")))
    until(lambda: Path(f"/proc/{victim.process_id}/comm").read_text() == "sleep\n", "it sleeps")
    thief = '#!/bin/sh\nread pid; id -u; tr "\\0" "\\n" < /proc/$pid/environ; true\n'
    run = until_over(submit(make_agent(thief, name="thief"), str(victim.process_id)))
    assert int(run.result.output) == places.settings.RUN_AS.uid
    assert "ermission denied" in run.result.error
    environ = Path(f"/proc/{victim.process_id}/environ").read_bytes()
    assert UUID(dict(line.split(b"=", 1) for line in environ.split(b"\0") if line)[b"GATEHOUSE_RUN_ID"].decode())
