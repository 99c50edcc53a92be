"""Ends are moments of the database, whatever zone the reader has chosen."""

from datetime import timedelta

import pytest
from django.utils import timezone

from common.db import clock
from nhi.access import effective_access
from nhi.authorization import facts
from nhi.choices import GrantState
from nhi.decisions import engine
from nhi.decisions.types import RequestedAction
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
            decided = engine.decide(loaded.caller, RequestedAction("call"), loaded.target, loaded.facts)
            reasons.append(decided.reason)
            assert abs((decided.decided_at - timezone.now()).total_seconds()) < 30
            assert decided.match is not None
            assert decided.match.expires_at is not None
        assert reasons == ["grant_expired", "granted"]
        assert decided.match.expires_at == live.expires_at
        assert [reach.name for reach in effective_access.load(bot).tools] == ["github__open"]
        assert abs((clock.database_now() - timezone.now()).total_seconds()) < 30


def test_the_end_itself_is_past() -> None:
    bot, reader = cast.agent(), cast.tool()
    grant = cast.tool_grant(bot, reader, expires_at=cast.future(days=1))
    assert grant.expires_at is not None
    for at, reason in ((grant.expires_at, "grant_expired"), (cast.future(hours=23), "granted")):
        loaded = facts.for_question(bot.pk, reader.pk, at=at)
        assert engine.decide(loaded.caller, RequestedAction("call"), loaded.target, loaded.facts).reason == reason


def test_rows_are_in_one_state_and_python_and_database_name_the_same() -> None:
    """Whole seconds, equal moments and fractions: SQLite compares times as text."""
    now = clock.database_now()
    whole = now.replace(microsecond=0)
    moments = [None, *(at + timedelta(hours=hours) for at in (now, whole) for hours in (-2, -1, 2))]
    bot = cast.agent()
    ends = [(expires, revoked) for expires in moments for revoked in moments if revoked is None or revoked < now]
    rows = []
    for number, (expires, revoked) in enumerate(ends):
        tool = cast.tool(f"s__t{number}")
        rows.append(
            ToolPermission(
                agent=bot, tool=tool, reason="x", granted_by_name="x", expires_at=expires, revoked_at=revoked,
                created_at=now - timedelta(days=1),
            )
        )  # fmt: skip
    ToolPermission.objects.bulk_create(rows)
    named = {
        state: set(ToolPermission.objects.in_state(state).values_list("pk", flat=True)) for state in GrantState.values
    }
    assert sum(map(len, named.values())) == len(rows)
    for row in ToolPermission.objects.all():
        assert row.pk in named[row.state_at(clock.database_now())], (row.expires_at, row.revoked_at)
        loaded = facts.for_question(bot.pk, row.tool_id)
        (match,) = loaded.facts.matches
        said = "live" if match.live else "revoked" if match.revoked else "expired"
        assert said == row.state_at(loaded.facts.decided_at), (row.expires_at, row.revoked_at)
