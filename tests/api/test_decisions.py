"""Asking over the API: an identity for itself, a person about two identities."""

from uuid import uuid4

import pytest

from common.errors import RecordUnavailable
from nhi.audit import events, row_macs
from nhi.authorization import oauth
from nhi.credentials import tokens
from nhi.models import AuditEvent, Identity
from tests.api.callers import ABSENT, Caller
from tests.api.conftest import Stage
from tests.mcp.behind import stand_behind_a_server
from tests.nhi import cast
from tests.record.limits import LIMIT, flushed, limited

pytestmark = pytest.mark.capability("NHI-10")


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Its tools are offered by a server."""
    stand_behind_a_server([stage.read, stage.write])
    return stage


def wish(target: Identity | str, **more: object) -> dict[str, object]:
    return {"target_id": str(target.pk if isinstance(target, Identity) else target), **more}


def test_an_identity_asks_for_itself(stage: Stage) -> None:
    grant = cast.tool_grant(stage.bot, stage.read)
    answer = stage.agent.post("decisions/check", wish(stage.read))
    assert answer.status == 200
    assert set(answer.body) == {"decision", "reason", "decision_id"}
    assert (answer.body["decision"], answer.body["reason"]) == ("allow", "granted")
    recorded = AuditEvent.objects.get(event="decision.allowed")
    assert recorded.details["decision_id"] == answer.body["decision_id"]
    assert recorded.details["matched"]["id"] == str(grant.pk)
    assert (recorded.actor_id, recorded.subject_id) == (stage.bot.pk, stage.read.pk)


def test_what_was_never_held_and_what_is_not_there_are_told_alike(stage: Stage) -> None:
    hidden, absent = (stage.agent.post("decisions/check", wish(target)) for target in (stage.read, ABSENT))
    for answer in (hidden, absent):
        assert (answer.body["decision"], answer.body["reason"]) == ("deny", "no_grant")
    assert stage.agent.get("audit-events").body["audit_events"] == []
    denied = AuditEvent.objects.filter(event="decision.denied", reason="no_grant").order_by("at")
    assert [row.subject_name for row in denied] == [stage.read.name, "what is not registered"]


def test_what_was_held_once_says_why(stage: Stage) -> None:
    grant = cast.tool_grant(stage.bot, stage.read)
    stage.admin.post(f"permissions/tools/{grant.pk}/revoke", {"reason": "Done"})
    assert stage.agent.post("decisions/check", wish(stage.read)).body["reason"] == "grant_revoked"


def test_the_arguments_count(stage: Stage) -> None:
    cast.tool_grant(stage.bot, stage.read, allowed_parameters={"properties": {"repo": {"const": "a"}}})
    fine = stage.agent.post("decisions/check", wish(stage.read, parameters={"repo": "a"}))
    wrong = stage.agent.post("decisions/check", wish(stage.read, parameters={"repo": "b"}))
    assert (fine.body["decision"], wrong.body["reason"]) == ("allow", "parameters_not_allowed")
    hashes = AuditEvent.objects.filter(event__startswith="decision.").values_list("details__args_hash", flat=True)
    assert len(set(hashes)) == 2


def test_a_token_that_is_narrowed_is_narrowed_here_too(stage: Stage) -> None:
    cast.tool_grant(stage.bot, stage.read)
    narrowed = narrowed_to(stage, "jira.*")
    assert narrowed.post("decisions/check", wish(stage.read)).body["reason"] == "scope_not_allowed"
    assert narrowed_to(stage, "github.*").post("decisions/check", wish(stage.read)).body["decision"] == "allow"


@pytest.mark.parametrize("roles", [("security-admin",), ("auditor",), ()])
def test_people_do_not_ask_for_themselves(stage: Stage, roles: tuple[str, ...]) -> None:
    answer = stage.person("nina", *roles).post("decisions/check", wish(stage.read))
    assert answer.is_refused(403, "Unauthorized", "identities_only")


@pytest.mark.parametrize("body", [{}, {"target_id": "x"}, {"target_id": ABSENT, "parameters": []}])
def test_a_question_that_makes_no_sense(stage: Stage, body: dict[str, object]) -> None:
    assert stage.agent.post("decisions/check", body).is_refused(400, "InvalidParameters")


@pytest.mark.capability("AUD-01")
def test_no_answer_without_its_record(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    cast.tool_grant(stage.bot, stage.read)
    monkeypatch.setattr(events, "write", unwritable)
    answer = stage.agent.post("decisions/check", wish(stage.read))
    assert answer.is_refused(503, "InternalError", "record_unavailable")


@pytest.mark.parametrize("roles", [("security-admin",), ("auditor",), ("operator",)])
def test_a_person_asks_why(stage: Stage, roles: tuple[str, ...]) -> None:
    caller = stage.person("nina", *roles)
    answer = caller.post("decisions/explain", wish(stage.read, caller_id=str(stage.bot.pk)))
    assert answer.status == 200
    said = answer.body
    assert (said["decision"], said["reason"]) == ("deny", "no_grant")
    assert said["decided_by"] == {"kind": "check", "id": None, "name": "access"}
    assert {check["verdict"] for check in said["checks"]} <= {"pass", "fail", "skip"}
    assert set(said["checks"][0]) == {"check", "verdict", "reason", "message"}
    assert said["would_pass"]


def test_why_names_the_grant_that_lets_pass(stage: Stage) -> None:
    grant = cast.tool_grant(stage.bot, stage.read)
    said = stage.admin.post("decisions/explain", wish(stage.read, caller_id=str(stage.bot.pk))).body
    assert (said["decision"], said["decided_by"]["kind"], said["decided_by"]["id"]) == ("allow", "grant", str(grant.pk))


def test_why_in_a_time_to_come(stage: Stage) -> None:
    cast.tool_grant(stage.bot, stage.read, expires_at=cast.future(days=1))
    later = cast.future(days=2).isoformat()
    said = stage.admin.post("decisions/explain", wish(stage.read, caller_id=str(stage.bot.pk), at=later)).body
    assert (said["decision"], said["reason"]) == ("deny", "grant_expired")
    before = wish(stage.read, caller_id=str(stage.bot.pk), at="2020-01-01T00:00:00Z")
    assert stage.admin.post("decisions/explain", before).is_refused(400, "InvalidParameters")


def test_who_cannot_see_both_gets_a_404(stage: Stage) -> None:
    cast.tool_grant(stage.bot, stage.read)
    for target in (stage.read, ABSENT):
        answer = stage.agent.post("decisions/explain", wish(target, caller_id=str(stage.bot.pk)))
        assert answer.is_refused(404, "NotFound")


def unwritable(*_: object, **__: object) -> None:
    raise RecordUnavailable


def narrowed_to(stage: Stage, scope: str) -> Caller:
    parsed = tokens.parse(stage.agent.token)
    assert isinstance(parsed, tokens.ParsedCredentialToken)
    return Caller(oauth.exchange(client_id=parsed.public_id, secret=stage.agent.token, scope=scope).token)


@pytest.mark.capability("AUD-02")
@pytest.mark.both_databases
def test_an_identity_that_asks_in_a_loop_fills_no_log(stage: Stage) -> None:
    cast.tool_grant(stage.bot, stage.read)
    with limited():
        answers = [stage.agent.post("decisions/check", wish(stage.read)) for _ in range(LIMIT + 2)]
        assert [answer.body["decision"] for answer in answers] == ["allow"] * (LIMIT + 2)
        for _ in range(4):
            stage.agent.post("decisions/check", wish(str(uuid4())))
        assert AuditEvent.objects.filter(event__startswith="decision.").count() == LIMIT
        counted = flushed("decision.allowed")
    assert (counted.details["count"], counted.subject_id, counted.actor_id) == (2, stage.read.pk, stage.bot.pk)
    assert row_macs.is_intact(counted)
    denied = AuditEvent.objects.get(event="decision.denied")
    assert (denied.details["count"], denied.subject_id, denied.reason) == (4, None, "no_grant")
