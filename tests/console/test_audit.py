"""The record at the console: found fast, opened whole, exported safely, and nobody's to change."""

import csv
import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from common import context
from common.context import RequestContext
from common.db import clock
from common.ids import uuid7
from nhi.actors import SYSTEM
from nhi.audit import authentication_failures, events, row_macs
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity, RefusedAuthentication
from tests.console.axe import violations
from tests.console.conftest import NARROW, SignedIn, Visit, identity
from tests.console.reading import text

pytestmark = pytest.mark.capability("AUD-01", "CON-05")

LIST, EXPORT = "/admin/nhi/auditevent/", "/admin/nhi/auditevent/export/"
REFUSED = "/admin/nhi/refusedauthentication/"
Most = Callable[..., Any]


def rows(client: Client, **query: str) -> list[AuditEvent]:
    """What the list shows, read from the links of its rows."""
    answer = client.get(LIST, query)
    return [AuditEvent.objects.get(pk=row["id"]) for row in answer.context_data["rows"]]


def page_of(event: AuditEvent) -> str:
    return f"{LIST}{event.pk}/"


def suspended() -> AuditEvent:
    return AuditEvent.objects.get(event="identity.suspended")


def test_an_event_is_a_sentence_with_its_reason_and_an_absolute_time(mara: Client) -> None:
    shown = text(mara, LIST, event="identity.suspended")
    assert "<strong>mara</strong> suspended" in shown
    assert "Leaked token found in a public log" in shown
    at = suspended().at
    assert f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} UTC" in shown


def test_times_are_in_the_zone_of_who_looks(mara: Client, seeded: None) -> None:
    mara.cookies["zone"] = "Asia/Kathmandu"
    at = suspended().at + timedelta(hours=5, minutes=45)
    assert f"{at:%H:%M:%S}." in text(mara, LIST, event="identity.suspended")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"actor": "mara"}, {"mara"}),
        ({"actor": "MARA"}, {"mara"}),
        ({"actor": "gatehouse"}, {"Gatehouse"}),
        ({"actor": "nobody-of-this-name"}, set()),
    ],
)
def test_it_is_narrowed_by_who_did_it(mara: Client, query: dict[str, str], expected: set[str]) -> None:
    assert {row.actor_name for row in rows(mara, **query)} == expected


def test_it_is_narrowed_by_whom_with_the_grants_and_roles_of_theirs(mara: Client) -> None:
    found = {row.event for row in rows(mara, subject="planner")}
    assert {"identity.created", "grant.given", "role.assigned"} <= found
    assert {row.event for row in rows(mara, subject="reader")} == {"role.created", "role.assigned"}
    assert {row.event for row in rows(mara, subject=str(identity("ci").pk))} == {
        "identity.created",
        "credential.issued",
    }


def test_it_is_narrowed_by_code_area_time_and_request(mara: Client) -> None:
    assert {row.event for row in rows(mara, event="role.*")} == {"role.created", "role.assigned"}
    event = suspended()
    with context.bind_context(RequestContext(uuid7(), "192.0.2.7")):
        events.write("decision.allowed", actor=SYSTEM)
        request_id = context.current().request_id
    assert [row.source for row in rows(mara, request=str(request_id))] == ["192.0.2.7"]
    assert rows(mara, request="no id") == []
    assert rows(mara, span="1h")
    after = (timezone.now() + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M")
    assert rows(mara, since=after) == []
    assert event in rows(mara, until=after, event="identity.suspended")
    assert rows(mara, since="not a time") == []


def test_pages_follow_each_other_without_a_gap_and_without_a_count(mara: Client) -> None:
    for _ in range(120):
        events.write("decision.allowed", actor=SYSTEM)
    seen: list[str] = []
    query: dict[str, str] = {}
    while True:
        answer = mara.get(LIST, query)
        seen += [row["id"] for row in answer.context_data["rows"]]
        if not answer.context_data["keyset"].older:
            break
        query = {"before": answer.context_data["keyset"].older}
    everything = AuditEvent.objects.order_by("-at", "-id").values_list("pk", flat=True)
    assert seen == [str(pk) for pk in everything]


def many(count: int) -> None:
    """Rows as old ones are: they are looked at, not verified."""
    start = timezone.now() - timedelta(days=30)
    subject = Identity.objects.earliest("created_at")
    for at in range(0, count, 1000):
        made = [
            AuditEvent(
                at=start + timedelta(seconds=at + i), event="decision.allowed", actor_kind="system",
                actor_name="Gatehouse", subject_kind="identity", subject_id=subject.pk if not i % 50 else uuid4(),
                subject_name="x", request_id=uuid4(), writer=uuid4(), writer_seq=i, row_mac="t1:none",
            )
            for i in range(min(1000, count - at))
        ]  # fmt: skip
        AuditEvent.objects.bulk_create(made)
    if connection.vendor == "postgresql":
        # Its daemon would; nothing asks SQLite to.
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE nhi_audit_event")


@pytest.mark.both_databases
def test_a_page_costs_the_same_at_any_size(mara: Client, django_assert_max_num_queries: Most) -> None:
    with django_assert_max_num_queries(15) as few:
        text(mara, LIST)
    many(3000)
    with django_assert_max_num_queries(len(few.captured_queries)) as asked:
        text(mara, LIST)
    assert not [one for one in asked.captured_queries if "COUNT(" in one["sql"] and "nhi_audit_event" in one["sql"]]


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, "nhi_audit_event_by_time"),
        ({"event": "identity.suspended"}, "nhi_audit_event_by_event"),
        ({"subject": "ci"}, "nhi_audit_event_by_subject"),
        ({"request": str(uuid4())}, "nhi_audit_event_by_request"),
    ],
)
def test_an_index_answers(mara: Client, query: dict[str, str], index: str) -> None:
    many(5000)
    listing = mara.get(LIST, query).context_data["listing"]
    assert index in listing.matching()[:51].explain()


def test_a_row_opens_with_before_and_after_and_says_that_it_is_as_written(mara: Client) -> None:
    bot = identity()
    lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Try")
    shown = text(mara, page_of(AuditEvent.objects.filter(event="identity.suspended").latest("at")))
    assert "As written" in shown
    for words in ("Before", "After", "active", "suspended", "Try", "Request id"):
        assert words in shown


def test_a_row_that_was_changed_in_the_database_is_told(mara: Client) -> None:
    event = suspended()
    forged = AuditEvent(**{field.attname: getattr(event, field.attname) for field in AuditEvent._meta.concrete_fields})
    forged.pk, forged.writer_seq, forged.reason = uuid7(), 999_999, "Nothing to see"
    forged.save()
    assert not row_macs.is_intact(forged)
    assert "Not as written" in text(mara, page_of(forged))


def test_secrets_stay_masked(mara: Client) -> None:
    token = f"nhi_agt_{'a' * 16}_{'b' * 46}"
    events.write("identity.changed", actor=SYSTEM, after={"purpose": f"uses {token}", "password": "swordfish-in-clear"})
    shown = text(mara, page_of(AuditEvent.objects.latest("at")))
    assert "[REDACTED:SECRET]" in shown
    assert "b" * 46 not in shown
    assert "swordfish" not in shown


def test_text_from_outside_is_shown_and_not_obeyed(mara: Client) -> None:
    events.write("identity.changed", actor=SYSTEM, after={"purpose": "<script>alert(1)</script>\u202egnp.exe"})
    shown = text(mara, page_of(AuditEvent.objects.latest("at")))
    assert "<script>alert" not in shown
    assert "U+202E" in shown


def test_who_was_archived_since_is_marked(mara: Client) -> None:
    lifecycle.deprecate(actor=SYSTEM, identity=identity("writer"), reason="Old")
    lifecycle.archive(actor=SYSTEM, identity=identity("writer"), reason="Old")
    assert "(archived since)" in text(mara, LIST, subject="writer", event="identity.created")


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_no_page_of_the_record_changes_it(signed_in: SignedIn, method: str) -> None:
    client = signed_in("admin")
    before = AuditEvent.objects.count()
    getattr(client, method)(page_of(suspended()))
    getattr(client, method)(LIST)
    assert AuditEvent.objects.count() == before


def test_who_does_not_read_the_record_sees_what_is_their_own(signed_in: SignedIn) -> None:
    olga = signed_in("olga")
    assert {row.subject_name for row in rows(olga)} == {"olga", "olga → planner", "olga → triage-bot"}
    assert olga.get(page_of(suspended())).status_code == 404


def exported(client: Client, kind: str, **query: str) -> str:
    answer = client.post(EXPORT, {"format": kind}, query_params=query)
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content).decode()


def test_an_export_is_safe_in_a_spreadsheet_keeps_the_filter_and_is_on_record(mara: Client) -> None:
    events.write("identity.changed", actor=SYSTEM, subject_name="=cmd|' /C calc'!A0", reason="@SUM(1)")
    lines = list(csv.DictReader(io.StringIO(exported(mara, "csv", event="identity.*"))))
    assert {line["event"].partition(".")[0] for line in lines} == {"identity"}
    assert (lines[0]["subject"], lines[0]["reason"]) == ("'=cmd|' /C calc'!A0", "'@SUM(1)")
    made = AuditEvent.objects.get(event="export.made")
    assert made.actor_name == "mara"
    assert made.details == {"format": "csv", "query": "event=identity.%2A"}


@pytest.mark.both_databases
def test_jsonl_holds_every_column_of_every_row(mara: Client) -> None:
    for _ in range(1100):
        events.write("decision.allowed", actor=SYSTEM, after={"a": [1, "ü"]})
    lines = [json.loads(line) for line in exported(mara, "jsonl").splitlines()]
    kept = {str(row.pk): row for row in AuditEvent.objects.exclude(event="export.made")}
    assert {line["id"] for line in lines} == kept.keys()
    for line in lines[:50]:
        row = kept[line["id"]]
        assert line.keys() == {field.attname for field in AuditEvent._meta.concrete_fields}
        assert (line["row_mac"], line["after"], clock.parse_database_time(line["at"])) == (
            row.row_mac,
            row.after,
            row.at,
        )


def test_a_look_exports_nothing_and_what_is_no_format_is_refused(mara: Client) -> None:
    assert "Export audit events" in text(mara, EXPORT, format="csv")
    assert mara.post(EXPORT, {"format": "xlsx"}).status_code == 400
    assert mara.get(LIST, {"export": "csv"}).headers["Content-Type"].startswith("text/html")
    assert not AuditEvent.objects.filter(event="export.made").exists()


def test_an_auditor_exports_by_a_link_and_who_may_not_does_not(signed_in: SignedIn) -> None:
    ada = signed_in("ada")
    assert ada.post(EXPORT, {"format": "csv"}).status_code == 403
    answer = ada.get(EXPORT, {"format": "csv"})
    assert b"".join(answer.streaming_content).startswith(b"at,actor,sentence")
    assert AuditEvent.objects.get(event="export.made").actor_name == "ada"
    for name in ("olga", "tom"):
        client = signed_in(name)
        assert client.get(EXPORT).status_code == 403
        assert client.post(EXPORT, {"format": "csv"}).status_code == 403


def test_refused_tokens_are_counted_with_whose_they_were(mara: Client, signed_in: SignedIn) -> None:
    credential = identity("ci").credentials.get()
    now = timezone.now()
    for _ in range(3):
        authentication_failures.count_failure(credential.public_id, "credential_revoked", now)
    authentication_failures.count_failure("", "credential_unknown", now)
    shown = text(mara, REFUSED)
    assert "The credential was revoked" in shown
    assert "No such credential" in shown
    found = mara.get(REFUSED, {"reason": "credential_revoked"}).context_data["rows"]
    assert [cell["html"] for cell in found[0]["cells"]][1:5] == [
        "ci", credential.public_id, "The credential was revoked", 3
    ]  # fmt: skip
    assert not signed_in("olga").get(REFUSED).context_data["rows"]
    assert RefusedAuthentication.objects.count() == 2


def test_empty_lists_teach(mara: Client) -> None:
    assert "Nothing was refused" in text(mara, REFUSED)
    assert "Nothing matches this filter" in text(mara, LIST, actor="nobody-of-this-name")


@pytest.mark.browser
@pytest.mark.capability("CON-06")
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "dark at 360"])
def test_axe_finds_nothing_on_an_event_an_export_and_the_refusals(visit: Visit, options: dict[str, Any]) -> None:
    somebody = visit("mara", **options)
    for path in (page_of(AuditEvent.objects.filter(event="grant.given").earliest("at")), EXPORT, REFUSED, LIST):
        somebody.open(path)
        assert not violations(somebody.page), path
        assert somebody.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert not somebody.complaints
