"""Every move between states: the legal ones happen once and are on record, the others change nothing."""

import pytest

from common.errors import InvalidInput, InvalidTransition, NotAllowed
from nhi.actors import SYSTEM
from nhi.choices import State
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-02"), pytest.mark.django_db, pytest.mark.both_databases]

#: As the promise says it, not as the product's table does.
LEGAL = {
    ("inactive", "active"), ("active", "inactive"), ("active", "suspended"), ("suspended", "active"),
    ("active", "deprecated"), ("inactive", "deprecated"), ("suspended", "deprecated"), ("deprecated", "archived"),
}  # fmt: skip
PATHS = {
    "inactive": (),
    "active": ("active",),
    "suspended": ("active", "suspended"),
    "deprecated": ("deprecated",),
    "archived": ("deprecated", "archived"),
}
PAIRS = [(old, new) for old in State.values for new in State.values]


def in_state(state: str) -> Identity:
    identity = cast.agent(activate=False)
    for step in PATHS[state]:
        identity = lifecycle.move(actor=SYSTEM, identity=identity, to=State(step), reason="On the way")
    return identity


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_move_is_legal_or_changes_nothing(old: str, new: str) -> None:
    identity = in_state(old)
    before, recorded = Identity.objects.filter(pk=identity.pk).values().get(), AuditEvent.objects.count()
    if (old, new) not in LEGAL:
        with pytest.raises(InvalidTransition) as refused:
            lifecycle.move(actor=SYSTEM, identity=identity, to=State(new), reason="Trying")
        assert refused.value.details["state"] == old
        assert set(refused.value.details["allowed"]) == {to for start, to in LEGAL if start == old}
        assert Identity.objects.filter(pk=identity.pk).values().get() == before
        assert AuditEvent.objects.count() == recorded
        return
    moved = lifecycle.move(actor=cast.admin(), identity=identity, to=State(new), reason="Because")
    assert (moved.state, moved.state_reason, moved.state_by) == (new, "Because", "mara")
    event = AuditEvent.objects.filter(subject_id=identity.pk).latest("at")
    assert (event.before, event.after, event.reason) == ({"state": old}, {"state": new}, "Because")
    assert (event.actor_name, event.subject_name) == ("mara", "bot")


def test_who_moves_from_a_state_that_has_passed_is_refused() -> None:
    identity = cast.agent()
    stale = Identity.objects.get(pk=identity.pk)
    lifecycle.suspend(actor=SYSTEM, identity=identity, reason="First")
    with pytest.raises(InvalidTransition) as refused:
        lifecycle.deactivate(actor=SYSTEM, identity=stale, reason="Second")
    assert refused.value.details["state"] == "suspended"
    assert Identity.objects.get(pk=identity.pk).state == "suspended"


def test_what_another_suspended_meanwhile_is_not_lifted_by_an_older_look() -> None:
    olga = cast.acting("olga", "operator")
    bot = cast.agent(owner=cast.user("olga"))
    lifecycle.suspend(actor=olga, identity=bot, reason="Mine")
    seen = Identity.objects.get(pk=bot.pk)
    lifecycle.activate(actor=olga, identity=Identity.objects.get(pk=bot.pk), reason="Done")
    lifecycle.suspend(actor=cast.admin(), identity=Identity.objects.get(pk=bot.pk), reason="Leak")
    with pytest.raises(InvalidTransition) as refused:
        lifecycle.activate(actor=olga, identity=seen, reason="Mine to lift")
    assert "suspended by mara meanwhile" in refused.value.message
    assert Identity.objects.get(pk=bot.pk).state == "suspended"
    with pytest.raises(NotAllowed):
        lifecycle.activate(actor=olga, identity=Identity.objects.get(pk=bot.pk), reason="Mine to lift")


def test_the_history_is_the_record() -> None:
    identity = cast.agent(activate=False)
    for verb in (lifecycle.activate, lifecycle.suspend, lifecycle.activate, lifecycle.deactivate, lifecycle.deprecate):
        verb(actor=SYSTEM, identity=Identity.objects.get(pk=identity.pk), reason="On the way")
    lifecycle.archive(actor=SYSTEM, identity=Identity.objects.get(pk=identity.pk), reason="The end")
    words = ("created", "activated", "suspended", "activated", "deactivated", "deprecated", "archived")
    assert cast.events(identity) == [f"identity.{word}" for word in words]


def test_every_end_of_access_raises_the_epoch_and_ends_short_lived_tokens() -> None:
    identity = cast.agent()
    for verb, raised in ((lifecycle.suspend, 1), (lifecycle.activate, 1), (lifecycle.deactivate, 2)):
        verb(actor=SYSTEM, identity=Identity.objects.get(pk=identity.pk), reason="Counting")
        now = Identity.objects.get(pk=identity.pk)
        assert now.access_epoch == raised
        assert now.tokens_from is not None


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501, "two\nlines", "hid\u200bden", "turned \u202eround"])
def test_a_move_needs_a_reason_that_can_be_read(reason: str) -> None:
    identity = cast.agent()
    with pytest.raises(InvalidInput) as refused:
        lifecycle.suspend(actor=SYSTEM, identity=identity, reason=reason)
    assert {field.field for field in refused.value.fields} == {"reason"}
    assert Identity.objects.get(pk=identity.pk).state == "active"


@pytest.mark.capability("NHI-08")
def test_who_moves_an_identity() -> None:
    olga = cast.user("olga", "operator")
    identity = cast.agent(owner=olga, backup_owner=cast.user("paul"))
    cast.user_grant(identity, cast.user("uma"), "use")
    cast.user_grant(identity, cast.user("max"), "manage")
    for name in ("uma", "stranger"):
        with pytest.raises(NotAllowed):
            lifecycle.suspend(actor=cast.acting(name), identity=identity, reason="Trying")
    for name in ("olga", "paul", "max", "mara"):
        actor = cast.admin() if name == "mara" else cast.acting(name)
        lifecycle.suspend(actor=actor, identity=Identity.objects.get(pk=identity.pk), reason="Stop")
        lifecycle.activate(actor=actor, identity=Identity.objects.get(pk=identity.pk), reason="Go on")


@pytest.mark.capability("CON-01")
@pytest.mark.parametrize("others", [(), ("security-admin",)])
def test_an_auditor_moves_nothing_whatever_else_they_are(others: tuple[str, ...]) -> None:
    ada = cast.user("ada", "auditor", *others)
    identity = cast.agent(owner=ada)
    with pytest.raises(NotAllowed):
        lifecycle.suspend(actor=cast.acting("ada"), identity=identity, reason="Trying")
    assert Identity.objects.get(pk=identity.pk).state == "active"
