"""One change, one event, one transaction: when the event cannot be written, the change has not happened."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from common import context
from common.errors import RecordUnavailable
from common.ids import uuid7
from nhi import actors
from nhi.access import bulk, grants, roles
from nhi.actors import SYSTEM
from nhi.audit import events
from nhi.audit.event_catalogue import EVENTS
from nhi.credentials import credentials
from nhi.identities import identities, lifecycle
from nhi.models import AuditEvent, Credential, Identity, Role, RoleAssignment, RoleCapability, ToolPermission, User
from nhi.people import people
from tests.nhi import cast

pytestmark = [pytest.mark.capability("AUD-01"), pytest.mark.both_databases]
GOVERNED = (Identity, Credential, ToolPermission, Role, RoleAssignment, RoleCapability, User)


def world() -> dict[str, Any]:
    bot, tool = cast.agent(), cast.tool()
    role = roles.create(actor=cast.admin(), name="reader", patterns=["github.*", "*.*"])
    return {
        "bot": bot,
        "tool": tool,
        "other": cast.tool("github__other"),
        "asleep": cast.agent("asleep", activate=False),
        "writer": cast.agent("writer"),
        "account": cast.service(),
        "uma": cast.user("uma"),
        "issued": credentials.issue(actor=SYSTEM, holder=bot),
        "grant": cast.tool_grant(bot, tool),
        "role": role,
        "waiting": role.capabilities.get(pattern="*.*"),
        "held": roles.assign(actor=SYSTEM, role=role, identity=bot),
    }


#: Each verb on the world above, and the event that it writes.
VERBS: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "create": ("identity.created", lambda w: cast.agent("new")),
    "change": ("identity.changed", lambda w: identities.change(actor=SYSTEM, identity=w["bot"], purpose="New")),
    "console roles": (
        "identity.console_roles_changed",
        lambda w: identities.set_console_roles(actor=SYSTEM, identity=w["account"], roles=["operator"]),
    ),
    "activate": ("identity.activated", lambda w: lifecycle.activate(actor=SYSTEM, identity=w["asleep"], reason="Go")),
    "deactivate": (
        "identity.deactivated",
        lambda w: lifecycle.deactivate(actor=SYSTEM, identity=w["bot"], reason="No"),
    ),
    "suspend": ("identity.suspended", lambda w: lifecycle.suspend(actor=SYSTEM, identity=w["bot"], reason="Stop")),
    "deprecate": ("identity.deprecated", lambda w: lifecycle.deprecate(actor=SYSTEM, identity=w["bot"], reason="Old")),
    "issue": ("credential.issued", lambda w: credentials.issue(actor=SYSTEM, holder=w["bot"])),
    "rotate": ("credential.rotated", lambda w: credentials.rotate(actor=SYSTEM, credential=w["issued"].credential)),
    "revoke": (
        "credential.revoked",
        lambda w: credentials.revoke(actor=SYSTEM, credential=w["issued"].credential, reason="Leak"),
    ),
    "give a tool": ("grant.given", lambda w: cast.tool_grant(w["bot"], w["other"])),
    "give an identity": ("grant.given", lambda w: cast.nhi_grant(w["bot"], w["writer"])),
    "give a person": ("grant.given", lambda w: cast.user_grant(w["bot"], w["uma"])),
    "revoke a grant": ("grant.revoked", lambda w: grants.revoke(actor=SYSTEM, grant=w["grant"], reason="Unused")),
    "make a role": ("role.created", lambda w: roles.create(actor=SYSTEM, name="new", patterns=["jira.*"])),
    "change a role": ("role.changed", lambda w: roles.change(actor=SYSTEM, role=w["role"], patterns=["jira.*"])),
    "approve a wildcard": (
        "role.capability_approved",
        lambda w: roles.approve_capability(actor=cast.admin("nina"), capability=w["waiting"], reason="Agreed"),
    ),
    "assign a role": ("role.assigned", lambda w: roles.assign(actor=SYSTEM, role=w["role"], identity=w["writer"])),
    "unassign a role": (
        "role.assignment_revoked",
        lambda w: roles.unassign(actor=SYSTEM, assignment=w["held"], reason="Unused"),
    ),
    "add a person": ("person.created", lambda w: people.create(actor=SYSTEM, username="new")),
    "change a person's roles": (
        "person.roles_changed",
        lambda w: people.set_roles(actor=SYSTEM, user=w["uma"], roles=["operator"]),
    ),
    "change oneself": (
        "person.changed",
        lambda w: people.change_own_settings(
            actor=cast.acting("uma"), user=w["uma"], time_zone="Europe/Vienna", single_key_shortcuts=True
        ),
    ),
    "change a password": (
        "person.password_changed",
        lambda w: people.change_password(
            actor=actors.person(w["uma"]), user=w["uma"], password=people.generate_password()
        ),
    ),
    "set a password": (
        "person.password_changed",
        lambda w: people.set_password(
            actor=SYSTEM, user=w["uma"], password=people.generate_password(), reason="Password forgotten"
        ),
    ),
    "deactivate a person": (
        "person.deactivated",
        lambda w: people.deactivate(actor=SYSTEM, user=w["uma"], reason="Left"),
    ),
}


def snapshot() -> list[Any]:
    rows = [list(model._default_manager.order_by("pk").values()) for model in GOVERNED]
    return [*rows, sorted(User.groups.through.objects.values_list("user_id", "group_id"))]


@pytest.mark.django_db
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_writes_one_event(verb: str) -> None:
    event, act = VERBS[verb]
    cast.admin("nina")
    there, before = world(), AuditEvent.objects.count()
    with context.bind_context(context.RequestContext(request := uuid7(), "192.0.2.7")):
        act(there)
    (written,) = AuditEvent.objects.order_by("-at", "-writer_seq")[: AuditEvent.objects.count() - before]
    assert written.event == event
    assert (written.request_id, written.source) == (request, "192.0.2.7")
    assert written.event in EVENTS
    assert written.actor_name
    assert written.subject_id
    assert written.subject_name


@pytest.fixture
def closed() -> Iterator[Callable[[], None]]:
    """Makes the database refuse every new event, as a full disk or a missing right would."""
    stop = {
        "sqlite": ["CREATE TRIGGER closed BEFORE INSERT ON nhi_audit_event BEGIN SELECT RAISE(ABORT, 'full'); END"],
        "postgresql": [
            "CREATE FUNCTION closed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'full'; END $$",
            "CREATE TRIGGER closed BEFORE INSERT ON nhi_audit_event FOR EACH ROW EXECUTE FUNCTION closed()",
        ],
    }

    def close() -> None:
        with connection.cursor() as cursor:
            for statement in stop[connection.vendor]:
                cursor.execute(statement)

    yield close


@pytest.mark.django_db
@pytest.mark.parametrize("verb", VERBS)
def test_without_its_event_nothing_happens(verb: str, closed: Callable[[], None]) -> None:
    cast.admin("nina")
    there = world()
    before = snapshot()
    closed()
    with pytest.raises(RecordUnavailable):
        VERBS[verb][1](there)
    assert snapshot() == before


@pytest.mark.django_db
def test_an_archive_without_its_record_archives_nothing(closed: Callable[[], None]) -> None:
    there = world()
    lifecycle.deprecate(actor=SYSTEM, identity=there["bot"], reason="Old")
    old = Identity.objects.get(pk=there["bot"].pk)
    before = snapshot()
    closed()
    with pytest.raises(RecordUnavailable):
        lifecycle.archive(actor=SYSTEM, identity=old, reason="Gone")
    assert snapshot() == before


@pytest.mark.django_db
@pytest.mark.capability("NHI-12")
def test_a_bulk_verb_stops_when_the_record_is_away(closed: Callable[[], None]) -> None:
    there = world()
    closed()
    with pytest.raises(RecordUnavailable):
        bulk.give_tools(
            actor=SYSTEM, agent=there["bot"], selection=bulk.ToolSelector(server="github"), reason="All of it"
        )
    assert ToolPermission.objects.count() == 1


@pytest.mark.django_db
def test_an_event_goes_with_the_transaction_that_it_is_about() -> None:
    before = AuditEvent.objects.count()
    with pytest.raises(DatabaseError), transaction.atomic():
        cast.agent()
        raise DatabaseError
    assert AuditEvent.objects.count() == before
    assert not Identity.objects.exists()


@pytest.mark.django_db
def test_secrets_are_masked_in_what_is_recorded() -> None:
    row = cast_event()
    assert row.before == {"password": "[REDACTED:SECRET]", "name": "x"}
    assert row.after == {"headers": {"X-Api-Key": "[REDACTED:SECRET]"}}


def cast_event() -> AuditEvent:
    return events.write(
        "identity.changed", actor=SYSTEM, subject_name="bot", before={"password": "hunter2", "name": "x"},
        after={"headers": {"X-Api-Key": "abc"}},
    )  # fmt: skip


@pytest.mark.django_db
def test_every_code_is_a_subject_and_a_verb_with_a_sentence() -> None:
    for code, sentence in EVENTS.items():
        assert code.replace(".", "").replace("_", "").islower(), code
        assert sentence.format(actor="A", subject="B"), code


@pytest.mark.django_db
def test_who_sees_which_events() -> None:
    there = world()
    events_of = AuditEvent.objects.visible_to
    everything = AuditEvent.objects.count()
    for name, role in (("mara", "security-admin"), ("tom", "approver"), ("ada", "auditor")):
        assert events_of(cast.acting(name, role)).count() >= everything
    assert (
        not events_of(cast.acting("olga", "operator")).exclude(actor_name="olga").exclude(subject_name="olga").exists()
    )
    assert set(events_of(cast.acting("uma")).values_list("subject_id", flat=True)) == {there["uma"].pk}
