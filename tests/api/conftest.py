"""The house that the API's tests look into: people of each role, two agents, two tools, a service account."""

from dataclasses import dataclass

import pytest

from nhi.actors import SYSTEM
from nhi.credentials import last_used
from nhi.identities import identities
from nhi.models import Identity, User
from tests.api.callers import Caller, calling
from tests.nhi import cast


@dataclass
class Stage:
    mara: User
    olga: User
    bot: Identity
    other: Identity
    account: Identity
    read: Identity
    write: Identity
    #: A security admin by personal token.
    admin: Caller
    agent: Caller
    stranger: Caller

    def person(self, name: str, *roles: str) -> Caller:
        return calling(cast.user(name, *roles))

    def automation(self, *roles: str) -> Caller:
        """A service account that holds console roles."""
        identities.set_console_roles(actor=SYSTEM, identity=self.account, roles=list(roles))
        return calling(self.account)


@pytest.fixture(autouse=True)
def _last_uses_are_written_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their thread has a connection of its own, which cannot see what a test has not committed."""
    monkeypatch.setattr(last_used, "FLUSH_SECONDS", 3600.0)


@pytest.fixture
def stage(db: None) -> Stage:
    return set_stage()


@pytest.fixture
def open_stage(transactional_db: None) -> Stage:
    """The same, committed, for tests with several connections."""
    return set_stage()


def set_stage() -> Stage:
    mara, olga = cast.user("mara", "security-admin"), cast.user("olga", "operator")
    bot, other = cast.agent("bot"), cast.agent("other")
    return Stage(
        mara=mara,
        olga=olga,
        bot=bot,
        other=other,
        account=cast.service("nightly"),
        read=cast.tool("github__read"),
        write=cast.tool("github__write"),
        admin=calling(mara),
        agent=calling(bot),
        stranger=calling(other),
    )
