"""Renewing while others renew, revoke or archive: one wins, nothing lives twice, and nobody waits for ever."""

import pytest

from common.errors import Conflict, InvalidInput
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import Identity, ToolPermission
from tests.nhi import cast
from tests.nhi.races.crowd import at_once, split

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
    pytest.mark.capability("NHI-06"),
]


def test_twenty_renewals_make_one_successor() -> None:
    grant = cast.tool_grant(cast.agent(), cast.tool())
    outcomes = at_once(20, lambda _: grants.renew(actor=SYSTEM, grant=grant, expires_at=None, reason="Needed"))
    done, refused = split(outcomes, Conflict)
    assert (len(done), refused) == (1, 19)
    assert list(ToolPermission.objects.live()) == done
    assert cast.events(event="grant.renewed") == ["grant.renewed"]


def test_a_renewal_and_a_revoke_of_one_grant_have_one_winner() -> None:
    for number in range(10):
        grant = cast.tool_grant(cast.agent(f"bot-{number}"), cast.tool(f"github__read-{number}"))

        def act(turn: int, grant: ToolPermission = grant) -> ToolPermission:
            if turn % 2:
                return grants.renew(actor=SYSTEM, grant=grant, expires_at=None, reason="Needed")
            return grants.revoke(actor=SYSTEM, grant=grant, reason="Leaked")

        (done,), refused = split(at_once(2, act), Conflict)
        assert refused == 1
        live = ToolPermission.objects.live().filter(agent=grant.agent)
        assert list(live) == ([] if done.pk == grant.pk else [done])


def test_nothing_is_renewed_past_an_archive() -> None:
    for number in range(8):
        bot, reader = cast.agent(f"bot-{number}"), cast.tool(f"github__read-{number}")
        grant = cast.tool_grant(bot, reader)
        lifecycle.deprecate(actor=SYSTEM, identity=Identity.objects.get(pk=reader.pk), reason="Old")
        old = Identity.objects.get(pk=reader.pk)

        def act(turn: int, grant: ToolPermission = grant, old: Identity = old) -> object:
            if turn == 0:
                return lifecycle.archive(actor=SYSTEM, identity=old, reason="Gone")
            return grants.renew(actor=SYSTEM, grant=grant, expires_at=None, reason="Needed")

        split(at_once(4, act), InvalidInput, Conflict)
        assert not ToolPermission.objects.live().filter(tool=reader).exists()
