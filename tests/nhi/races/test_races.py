"""Whoever acts at the same moment: one wins, the others are told, and the record says what happened, once."""

from collections import Counter

import pytest

from common.errors import Conflict, Duplicate, InvalidInput, InvalidTransition
from nhi.access import grants, roles
from nhi.actors import SYSTEM
from nhi.audit import authentication_failures, row_macs
from nhi.credentials import credentials
from nhi.identities import lifecycle
from nhi.models import (
    AuditEvent,
    Credential,
    Identity,
    NhiPermission,
    RefusedAuthentication,
    RoleAssignment,
    ToolPermission,
)
from tests.nhi import cast
from tests.nhi.races.crowd import at_once, split

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


@pytest.mark.capability("NHI-04")
def test_twenty_issues_make_two() -> None:
    bot = cast.agent()
    done, refused = split(
        at_once(20, lambda _: credentials.issue(actor=SYSTEM, holder=bot)), credentials.TooManyLiveCredentials
    )
    assert (len(done), refused) == (2, 18)
    assert Credential.objects.live().count() == 2
    assert cast.events(bot).count("credential.issued") == 2


@pytest.mark.capability("NHI-04")
def test_twenty_rotations_make_one_successor() -> None:
    issued = credentials.issue(actor=SYSTEM, holder=cast.agent())
    outcomes = at_once(20, lambda _: credentials.rotate(actor=SYSTEM, credential=issued.credential))
    done, refused = split(outcomes, Conflict)
    assert (len(done), refused) == (1, 19)
    assert Credential.objects.live().count() == 2


@pytest.mark.capability("NHI-04")
def test_revoking_and_rotating_one_credential_lock_in_one_order() -> None:
    for number in range(10):
        bot = cast.agent(f"bot-{number}")
        issued = credentials.issue(actor=SYSTEM, holder=bot)

        def act(turn: int, credential: Credential = issued.credential) -> object:
            if turn % 2:
                return credentials.rotate(actor=SYSTEM, credential=credential)
            return credentials.revoke(actor=SYSTEM, credential=credential, reason="Leak")

        done, _ = split(at_once(6, act), Conflict)
        assert 1 <= len(done) <= 2
        assert Credential.objects.get(pk=issued.credential.pk).state == "revoked"


@pytest.mark.capability("NHI-04")
def test_one_revoke_of_twenty_is_recorded() -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    outcomes = at_once(
        20, lambda number: credentials.revoke(actor=SYSTEM, credential=issued.credential, reason=f"Number {number}")
    )
    done, refused = split(outcomes, credentials.CredentialNotLive)
    assert (len(done), refused) == (1, 19)
    assert cast.events(bot).count("credential.revoked") == 1
    assert AuditEvent.objects.get(event="credential.revoked").reason == done[0].revoke_reason
    assert Identity.objects.get(pk=bot.pk).access_epoch == 1


@pytest.mark.capability("NHI-06")
def test_twenty_identical_grants_make_one() -> None:
    bot, reader = cast.agent(), cast.tool()
    done, refused = split(at_once(20, lambda _: cast.tool_grant(bot, reader)), Duplicate)
    assert (len(done), refused) == (1, 19)
    assert ToolPermission.objects.count() == AuditEvent.objects.filter(event="grant.given").count() == 1


@pytest.mark.capability("NHI-06")
def test_twenty_grants_over_an_ended_one_close_it_once_and_make_one() -> None:
    bot, reader = cast.agent(), cast.tool()
    old = cast.tool_grant(bot, reader, expires_at=cast.future(hours=1))
    ToolPermission.objects.filter(pk=old.pk).update(expires_at=cast.past(seconds=1))
    done, refused = split(at_once(20, lambda _: cast.tool_grant(bot, reader)), Duplicate)
    assert (len(done), refused) == (1, 19)
    assert ToolPermission.objects.live().count() == 1
    assert cast.events(old).count("grant.expired") == 1


@pytest.mark.capability("NHI-07")
def test_twenty_grants_between_identities_make_one_of_each_kind() -> None:
    planner, writer = cast.agent("planner"), cast.agent("writer")
    kinds = ("call", "delegate")
    done, refused = split(at_once(20, lambda number: cast.nhi_grant(planner, writer, kinds[number % 2])), Duplicate)
    assert (len(done), refused) == (2, 18)
    assert Counter(NhiPermission.objects.values_list("permission_type", flat=True)) == {"call": 1, "delegate": 1}


@pytest.mark.capability("NHI-06")
def test_one_revoke_of_a_grant_of_twenty_is_recorded() -> None:
    grant = cast.tool_grant(cast.agent(), cast.tool())
    outcomes = at_once(20, lambda number: grants.revoke(actor=SYSTEM, grant=grant, reason=f"Number {number}"))
    done, refused = split(outcomes, grants.AlreadyRevoked)
    assert (len(done), refused) == (1, 19)
    assert cast.events(grant).count("grant.revoked") == 1
    assert ToolPermission.objects.get(pk=grant.pk).revoke_reason == done[0].revoke_reason


@pytest.mark.capability("NHI-09")
def test_twenty_assignments_of_a_role_make_one() -> None:
    bot, role = cast.agent(), roles.create(actor=SYSTEM, name="reader", patterns=["github.*"])
    done, refused = split(at_once(20, lambda _: roles.assign(actor=SYSTEM, role=role, identity=bot)), Duplicate)
    assert (len(done), refused) == (1, 19)
    assert RoleAssignment.objects.live().count() == 1


@pytest.mark.capability("NHI-09")
def test_one_of_two_admins_approves_a_wildcard() -> None:
    role = roles.create(actor=cast.admin("mara"), name="everything", patterns=["*.*"])
    waiting = role.capabilities.get()
    others = [cast.admin(f"admin-{number}") for number in range(6)]
    outcomes = at_once(
        6, lambda number: roles.approve_capability(actor=others[number], capability=waiting, reason="Agreed")
    )
    done, refused = split(outcomes, roles.AlreadyApproved)
    assert (len(done), refused) == (1, 5)
    assert cast.events(role).count("role.capability_approved") == 1


@pytest.mark.capability("NHI-02")
def test_of_two_movers_one_wins() -> None:
    verbs = (lifecycle.suspend, lifecycle.deactivate, lifecycle.deprecate)
    for number in range(10):
        bot = cast.agent(f"bot-{number}")
        outcomes = at_once(6, lambda turn, bot=bot: verbs[turn % 3](actor=SYSTEM, identity=bot, reason=f"Turn {turn}"))
        done, refused = split(outcomes, InvalidTransition)
        assert (len(done), refused) == (1, 5)
        moved = [event for event in cast.events(bot) if event != "identity.created"]
        assert moved == [f"identity.{lifecycle.STATE_VERBS[Identity.objects.get(pk=bot.pk).state]}"]


@pytest.mark.capability("NHI-02", "NHI-03")
def test_suspending_and_activating_at_once_leaves_a_history_that_alternates() -> None:
    bot = cast.agent()

    def act(number: int) -> object:
        now = Identity.objects.get(pk=bot.pk)
        verb = lifecycle.suspend if number % 2 else lifecycle.activate
        return verb(actor=SYSTEM, identity=now, reason=f"Number {number}")

    split(at_once(40, act), InvalidTransition)
    rows = AuditEvent.objects.filter(subject_id=bot.pk).exclude(event="identity.created")
    steps = {(row.before["state"], row.after["state"]) for row in rows if row.before and row.after}
    assert steps <= {("active", "suspended"), ("suspended", "active")}
    suspended = rows.filter(event="identity.suspended").count()
    activated = rows.filter(event="identity.activated").count()
    state = Identity.objects.get(pk=bot.pk)
    assert suspended - activated == (1 if state.state == "suspended" else 0)
    assert state.access_epoch == suspended


@pytest.mark.capability("NHI-03")
def test_what_is_given_while_an_identity_is_archived_is_refused_or_revoked() -> None:
    for number in range(8):
        bot, reader = cast.agent(f"bot-{number}"), cast.tool(f"github__read-{number}")
        lifecycle.deprecate(actor=SYSTEM, identity=reader, reason="Old")
        old = Identity.objects.get(pk=reader.pk)
        assert reader.state == "active", "whoever gives has read it before"

        def act(turn: int, bot: Identity = bot, reader: Identity = reader, old: Identity = old) -> object:
            if turn == 0:
                return lifecycle.archive(actor=SYSTEM, identity=old, reason="Gone")
            if turn % 2:
                return credentials.issue(actor=SYSTEM, holder=bot)
            return cast.tool_grant(bot, reader)

        split(at_once(5, act), InvalidInput, Conflict)
        assert not ToolPermission.objects.live().filter(tool=reader).exists()


@pytest.mark.capability("NHI-03", "NHI-04")
def test_a_credential_issued_while_its_holder_is_archived_does_not_live() -> None:
    for number in range(8):
        bot = cast.agent(f"bot-{number}")
        lifecycle.deprecate(actor=SYSTEM, identity=Identity.objects.get(pk=bot.pk), reason="Old")
        asleep = Identity.objects.get(pk=bot.pk)

        def act(turn: int, bot: Identity = bot, asleep: Identity = asleep) -> object:
            if turn == 0:
                return lifecycle.archive(actor=SYSTEM, identity=asleep, reason="Gone")
            return credentials.issue(actor=SYSTEM, holder=bot)

        split(at_once(4, act), InvalidInput, Conflict)
        assert not Credential.objects.live().filter(identity=bot).exists()


@pytest.mark.capability("AUD-01")
def test_forty_refusals_in_a_minute_are_one_row_with_a_count() -> None:
    at = cast.past(seconds=0).replace(second=30)
    split(at_once(40, lambda _: authentication_failures.count_failure("abc", "credential_revoked", at)))
    row = RefusedAuthentication.objects.get()
    assert (row.count, row.public_id, row.reason) == (40, "abc", "credential_revoked")


@pytest.mark.capability("AUD-01")
def test_rows_written_at_once_are_numbered_once() -> None:
    owner = cast.user("olga", "operator")
    assert len(split(at_once(30, lambda number: cast.agent(f"bot-{number}", owner=owner)))[0]) == 30
    rows = list(AuditEvent.objects.filter(event="identity.created"))
    assert len(rows) == len({(row.writer, row.writer_seq) for row in rows}) == 30
    assert all(row_macs.is_intact(row) for row in rows)
