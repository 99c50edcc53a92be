"""What goes wrong at the far side ends the task with a code and a sentence, or is waited out."""

import json
from typing import Any

import pytest

from a2a.choices import TaskState
from a2a.models import RemoteTask, Task
from a2a.remote import Carried, Credential, Target, limits, pausing
from a2a.remote import carrying as carrying_module
from mcp.choices import BreakerState
from mcp.models import Breaker
from tests.a2a.remote.conftest import Carrying, now_of, told
from tests.a2a.remote.far_side import (
    Answer,
    FarSide,
    artifact,
    error,
    far_side,
    hang,
    made,
    plain,
    raw,
    result,
    said,
    status,
    stream,
    task,
    update,
)  # fmt: skip
from tests.nhi import cast

pytestmark = pytest.mark.capability("A2A-07")
DONE = task("completed", artifacts=[artifact("report", "All agreed.")])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


def failed(carrying: Carrying, far: FarSide, *answers: Answer, **target: Any) -> tuple[str, str]:
    """What a task fails with when its first message is answered so."""
    far.on["SendMessage"] = list(answers)
    sent = carrying.does("report")
    assert carrying.carry(sent, Target(far.url, **target)) == Carried.ENDED
    done = now_of(sent)
    assert done.state == TaskState.FAILED
    return done.error_code, done.error_message


NO_ANSWERS: list[tuple[Answer, str, str]] = [
    (status(302, "Location: http://127.0.0.1:1/"), "remote_refused", "redirect (302)"),
    (status(401), "remote_refused", "refused our credentials (401)"),
    (status(403), "remote_refused", "refused our credentials, or the call by them (403)"),
    (status(400, body={"error": {"message": "Too \x1b[31m\nloud"}}), "remote_refused", "It said: Too \\u001b[31m"),
    (status(500), "remote_error", "failed at it (status 500)"),
    (error(-32602, "No such skill."), "remote_refused", "-32602). It said: No such skill."),
    (error(-32603, "Oh."), "remote_error", "-32603"),
    (raw(b"SSH-2.0-dropbear\r\n"), "remote_invalid_answer", "does not answer in HTTP"),
    (raw(said(200, b"<html>", "text/html")), "remote_invalid_answer", "'text/html'"),
    (raw(said(200, b"{")), "remote_invalid_answer", "not JSON"),
    (raw(said(200, b'{"a": NaN}')), "remote_invalid_answer", "NaN"),
    (raw(said(200, b"[" * 5000)), "remote_invalid_answer", "nested deeper"),
    (result({"task": DONE}, id="another"), "remote_invalid_answer", "not one to our request"),
    (result({"task": {**DONE, "id": 7}}), "remote_invalid_answer", "its id is no text"),
    (result({"task": {**DONE, "artifacts": [{"artifactId": "a" * 201}]}}), "remote_invalid_answer", "artifactId"),
    (result({"task": {**DONE, "artifacts": [3]}}), "remote_invalid_answer", "an artifact is no object"),
    (result("completed"), "remote_invalid_answer", "is no object"),
    (result({}), "remote_invalid_answer", "neither a task nor a message"),
    (raw(HEAD, b"{"), "remote_lost", "is not sent twice"),
    (raw(), "remote_lost", "is not sent twice"),
]


def test_an_answer_that_is_none_fails_the_task_and_is_never_asked_for_twice(carrying: Carrying, settings: Any) -> None:
    for answer, code, words in NO_ANSWERS:
        with far_side() as far:
            settings.EGRESS_ALLOW = frozenset({far.place})
            found, message = failed(carrying, far, answer)
            asked = len(far.named("SendMessage"))
        assert (found, asked) == (code, 1), words
        assert words in message
        assert message.isprintable()


def test_an_answer_that_is_too_large_is_not_read(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER", 10_000)
    code, _ = failed(carrying, far, result({"task": {**DONE, "metadata": {"long": "x" * 20_000}}}))
    assert code == "remote_too_large"


def test_a_server_that_says_later_is_asked_again(carrying: Carrying, far: FarSide) -> None:
    far.on["SendMessage"] = [
        status(429, "Retry-After: 0"), status(503), error(-32016, "Not now."), result({"task": DONE})
    ]  # fmt: skip
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).result == {"text": "All agreed."}
    assert len({request.body["params"]["message"]["messageId"] for request in far.named("SendMessage")}) == 1


def test_one_that_stays_away_is_given_up_after_four_tries(carrying: Carrying, settings: Any) -> None:
    with far_side() as gone:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {gone.place}
    sent = carrying.does("report")
    carrying.carry(sent, Target(f"{gone.url}/rpc", version="1.0", binding="JSONRPC"))
    done = now_of(sent)
    assert done.error_code == "remote_unreachable"
    assert Breaker.objects.get(service_name=f"a2a {gone.place}").failure_count == 4


def test_a_place_that_failed_again_and_again_is_left_alone(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pausing, "MOST_ASKED", 0.01)
    for _ in range(5):
        failed(carrying, far, status(500))
    breaker = Breaker.objects.get(service_name=f"a2a {far.place}")
    assert breaker.state == BreakerState.OPEN
    before = len(far.requests)
    code, message = failed(carrying, far, result({"task": DONE}))
    assert (code, "failed 5 times in a row" in message) == ("remote_unreachable", True)
    assert len(far.requests) == before
    Breaker.objects.filter(pk=breaker.pk).update(last_state_change=cast.past(seconds=60))
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).state == TaskState.COMPLETED


def test_a_server_that_hangs_is_left_after_the_time_that_it_is_given(carrying: Carrying, far: FarSide) -> None:
    code, message = failed(carrying, far, hang, timeout=0.3)
    assert code == "remote_timeout"
    assert message.startswith("The remote agent did not answer within 0.3 s. Nobody knows whether the task arrived")
    assert len(far.named("SendMessage")) == 1


def test_a_stream_that_falls_silent_is_asked_for(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying_module, "IDLE_SECONDS", 0.2)
    far.streaming = True
    far.on["SendStreamingMessage"] = [stream({"task": task("working")}, then=hang)]
    far.on["GetTask"] = [result(DONE)]
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).result == {"text": "All agreed."}


def test_an_agent_that_works_on_and_on_is_given_up(carrying: Carrying, far: FarSide) -> None:
    far.on = {"GetTask": [result(task("working"))], "CancelTask": [result(task("canceled"))]}
    code, message = failed(carrying, far, result({"task": task("working")}), patience=0.3)
    assert (code, message) == ("remote_timeout", "The remote agent was not done within 0.3 s.")
    assert len(far.named("CancelTask")) == 1


def test_the_deadline_of_the_task_ends_it(carrying: Carrying, far: FarSide) -> None:
    far.on = {
        "SendMessage": [result({"task": task("working")})],
        "GetTask": [result(task("working"))],
        "CancelTask": [result(task("canceled"))],
    }
    sent = carrying.does("report", deadline=cast.future(seconds=1))
    carrying.carry(sent, Target(far.url))
    done = now_of(sent)
    assert (done.state, done.error_code) == (TaskState.FAILED, "deadline_exceeded")
    assert len(far.named("CancelTask")) == 1


def test_a_place_outside_egress_is_not_called(carrying: Carrying, far: FarSide, settings: Any) -> None:
    settings.EGRESS_ALLOW = frozenset()
    code, message = failed(carrying, far)
    assert code == "remote_blocked"
    assert "EGRESS_ALLOW" not in message
    assert "127.0.0.1" not in message
    assert "EGRESS_ALLOW" in Task.objects.latest("created_at").operator_message, "people read the whole of it"
    assert not far.requests


def test_a_card_that_leads_to_a_place_outside_egress_leads_nowhere(carrying: Carrying, far: FarSide) -> None:
    way = {"url": "http://127.0.0.1:9/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    far.on["card"] = [plain(far.card(supportedInterfaces=[way]))]
    assert failed(carrying, far)[0] == "remote_blocked"


def test_the_credential_goes_to_the_place_that_was_set_and_to_no_other(
    carrying: Carrying, far: FarSide, settings: Any
) -> None:
    far.on["SendMessage"] = [result({"task": DONE})]
    target = Target(far.url, credential=Credential("Authorization", "Bearer s3cret"))
    carrying.carry(carrying.does("report"), target)
    assert [request.headers["authorization"] for request in far.requests] == ["Bearer s3cret", "Bearer s3cret"]
    with far_side() as other:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {other.place}
        far.on["card"], other.on["SendMessage"] = [plain(other.card())], [result({"task": DONE})]
        sent = carrying.does("report")
        carrying.carry(sent, Target(far.url, version="1.0", credential=Credential("Authorization", "Bearer s3cret")))
        assert now_of(sent).state == TaskState.COMPLETED
        (request,) = other.requests
    assert "s3cret" not in json.dumps(request.headers)


def test_the_request_says_which_of_ours_it_is(carrying: Carrying, far: FarSide) -> None:
    far.on["SendMessage"] = [result({"task": DONE})]
    sent = carrying.does("report", task_type="summarise", metadata={"tone": "dry"})
    carrying.carry(sent, Target(far.url))
    (request,) = far.named("SendMessage")
    metadata = request.body["params"]["metadata"]
    ours = {"gatehouse/request_id": request.headers["x-request-id"], "gatehouse/task_id": str(sent.pk)}
    assert metadata == {"tone": "dry", "task_type": "summarise", **ours}
    assert request.headers["a2a-version"] == "1.0"
    assert "a2a-version" not in far.named("card")[0].headers
    message = request.body["params"]["message"]
    assert not {"taskId", "contextId"} & set(message)


@pytest.mark.parametrize("card", [status(404), plain({"name": "far"}), plain([1])], ids=["none", "empty", "list"])
def test_without_a_card_that_names_a_way_nothing_is_sent(carrying: Carrying, far: FarSide, card: Answer) -> None:
    far.on["card"] = [card]
    code, _ = failed(carrying, far)
    assert code in ("remote_no_interface", "remote_invalid_answer")
    assert not far.named("SendMessage")


def test_a_named_version_and_binding_need_no_card(carrying: Carrying, far: FarSide) -> None:
    far.on = {"card": [status(404)], "SendStreamingMessage": [error(-32004, "No.")]}
    far.on["SendMessage"] = [result({"task": DONE})]
    sent = carrying.does("report")
    carrying.carry(sent, Target(f"{far.url}/rpc", version="1.0", binding="JSONRPC"))
    assert now_of(sent).result == {"text": "All agreed."}


def test_news_of_another_task_is_refused(carrying: Carrying, far: FarSide) -> None:
    far.streaming = True
    other = update("completed")
    other["statusUpdate"]["taskId"] = "not-ours"
    far.on["SendStreamingMessage"] = [stream({"task": task("working")}, other)]
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).error_code == "remote_invalid_answer"


def test_an_event_that_is_too_large_ends_it(carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENT", 10_000)
    far.streaming = True
    far.on["SendStreamingMessage"] = [stream({"task": task("working")}, made("report", "x" * 20_000))]
    far.on["CancelTask"] = [result(task("canceled"))]
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).error_code == "remote_too_large"
    assert RemoteTask.objects.get(task=sent).cancel_settled


def test_a_server_that_forgets_the_task_loses_it(carrying: Carrying, far: FarSide) -> None:
    far.on = {"SendMessage": [result({"task": task("working")})], "GetTask": [error(-32001, "Task not found")]}
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).error_code == "remote_lost"
    assert not far.named("CancelTask")


def test_one_that_is_away_for_a_while_is_waited_for(carrying: Carrying, far: FarSide) -> None:
    far.on = {
        "SendMessage": [result({"task": task("working")})],
        "GetTask": [status(502), raw(), status(503), result(DONE)],
    }
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert told(now_of(sent)) == ["task", ("working", ""), ("report", "All agreed.", False), ("completed", "")]


def test_one_that_is_away_for_good_is_given_up(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pausing, "PATIENCE", 0.0)
    far.on = {"SendMessage": [result({"task": task("working")})], "GetTask": [status(502)]}
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).error_code == "remote_error"
