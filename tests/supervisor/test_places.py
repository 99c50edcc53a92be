"""A run's directory and files become its account's by what was opened, whatever has taken their path since."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.ids import uuid7
from config.environment import Account
from supervisor.runner import places

pytestmark = [
    pytest.mark.capability("SUP-02"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another account"),
]


@pytest.fixture
def nobody(settings: Any, tmp_path: Path) -> Account:
    found = pwd.getpwnam("nobody")
    settings.RUN_AS, settings.DATA = Account("nobody", found.pw_uid, found.pw_gid), tmp_path
    return Account("nobody", found.pw_uid, found.pw_gid)


@pytest.fixture
def swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Path]], Path]:
    """A file of root's that another run of the same account puts in place of what is about to be given away."""
    victim = tmp_path / "keys.json"
    victim.write_text("secret")
    give = places._give

    def swap(path_of: Callable[[], Path]) -> Path:
        def give_late(what: Any) -> None:
            path = path_of()
            path.rename(path.with_name("moved"))
            os.link(victim, path)
            give(what)

        monkeypatch.setattr(places, "_give", give_late)
        return victim

    return swap


def test_a_file_is_given_by_its_descriptor(
    nobody: Account, tmp_path: Path, swapped: Callable[[Callable[[], Path]], Path]
) -> None:
    path = tmp_path / "parameters.json"
    victim = swapped(lambda: path)
    places.write(path, b"{}")
    assert victim.stat().st_uid == 0
    assert (tmp_path / "moved").stat().st_uid == nobody.uid


def test_a_directory_is_given_by_its_descriptor(nobody: Account, swapped: Callable[[Callable[[], Path]], Path]) -> None:
    execution_id = uuid7()
    place = places.of(execution_id)
    victim = swapped(lambda: place)
    places.make(execution_id)
    assert victim.stat().st_uid == 0
    moved = place.with_name("moved")
    assert moved.stat().st_uid == nobody.uid
    place.unlink()
    moved.rmdir()
    place.parent.rmdir()
