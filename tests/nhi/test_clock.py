"""Ends are moments of the database, whatever zone the reader has chosen."""

import pytest
from django.utils import timezone

from common import clock
from nhi import decisions, effective, facts
from nhi.decisions import Action
from nhi.models import ToolPermission
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-06"), pytest.mark.django_db, pytest.mark.both_databases]
ZONES = ["Pacific/Kiritimati", "Pacific/Midway", "Asia/Kathmandu", "Europe/Vienna", "UTC"]


@pytest.mark.parametrize("zone", ZONES)
def test_a_readers_zone_moves_no_end(zone: str) -> None:
    bot, over, open_ = cast.agent(), cast.tool("github__over"), cast.tool("github__open")
    ended = cast.tool_grant(bot, over, expires_at=cast.future(hours=1))
    ToolPermission.objects.filter(pk=ended.pk).update(expires_at=cast.past(seconds=1))
    live = cast.tool_grant(bot, open_, expires_at=cast.future(seconds=60))
    with timezone.override(zone):
        reasons = []
        for target in (over, open_):
            loaded = facts.for_question(bot.pk, target.pk)
            decided = decisions.decide(loaded.caller, Action("call"), loaded.target, loaded.facts)
            reasons.append(decided.reason)
            assert abs((decided.decided_at - timezone.now()).total_seconds()) < 30
            assert decided.match is not None
            assert decided.match.expires_at is not None
        assert reasons == ["grant_expired", "granted"]
        assert decided.match.expires_at == live.expires_at
        assert [reach.name for reach in effective.of(bot).tools] == ["github__open"]
        assert abs((clock.database_now() - timezone.now()).total_seconds()) < 30


def test_the_end_itself_is_past() -> None:
    bot, reader = cast.agent(), cast.tool()
    grant = cast.tool_grant(bot, reader, expires_at=cast.future(days=1))
    assert grant.expires_at is not None
    for at, reason in ((grant.expires_at, "grant_expired"), (cast.future(hours=23), "granted")):
        loaded = facts.for_question(bot.pk, reader.pk, at=at)
        assert decisions.decide(loaded.caller, Action("call"), loaded.target, loaded.facts).reason == reason
