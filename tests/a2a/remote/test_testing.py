"""A server behind an agent is tested before a task is sent there: what is found is said, and nothing is worked on."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from a2a.models import Runtime
from a2a.remote import limits, testing
from nhi.models import AuditEvent
from tests.a2a.conftest import Stage
from tests.a2a.remote import far_rpc
from tests.a2a.remote.far_rpc import FarRpc
from tests.a2a.remote.far_side import Answer, FarSide, Request, error, far_side, hang, plain, raw, result, said, status
from tests.a2a.remote.far_side import task as told
from tests.api.callers import Caller, Reply, calling
from tests.egress.tls import self_signed
from tests.nhi import cast
from tests.services import gateway
from tests.services.peers import PeerAgent

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.django_db, pytest.mark.both_databases]
SECRET = "s3cret-value-of-ours"
WAYS = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")]
UNKNOWN = error(-32001, "Task not found")


@dataclass
class Bench:
    stage: Stage

    def path(self) -> str:
        return f"a2a/runtimes/{self.stage.writer.pk}"

    def set(self, url: str, **more: Any) -> None:
        body = {"kind": "remote", "url": url, "scheme": "Bearer", "credential": SECRET, **more}
        chosen = self.stage.admin.send("PUT", self.path(), json.dumps(body))
        assert chosen.status == 200, chosen.body

    def asks(self, caller: Caller | None = None) -> Reply:
        return (caller or self.stage.admin).post(f"{self.path()}/test", {})

    def finds(self, url: str, **more: Any) -> Any:
        self.set(url, **more)
        found = self.asks()
        assert found.status == 200, found.body
        assert SECRET not in json.dumps(found.body)
        return found.body


@pytest.fixture
def tested(stage: Stage) -> Bench:
    return Bench(stage)


@pytest.fixture(autouse=True)
def _loop_ended() -> Iterator[None]:
    yield
    gateway.end()


@pytest.fixture
def rpc(settings: Any) -> Iterator[FarRpc]:
    with far_rpc.far_rpc() as made:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {made.place}
        yield made


def steps(body: Any) -> list[tuple[str, bool]]:
    return [(step["step"], step["passed"]) for step in body["steps"]]


@pytest.mark.parametrize(("version", "binding"), WAYS)
def test_a_server_of_the_official_sdk_is_found_to_work_or_to_refuse_the_credential(
    tested: Bench, plain_agent: PeerAgent, version: str, binding: str
) -> None:
    way = {"wire_version": version, "binding": binding}
    fine = tested.finds(plain_agent.url, credential="s3cret", **way)
    assert (fine["works"], fine["outcome"], fine["credential"]) == (True, "works", "accepted"), fine
    assert (fine["agent_name"], fine["advice"]) == ("Minutes", "")
    assert {name: fine["interface"][name] for name in way} == way
    assert steps(fine) == [("card", True), ("interface", True), ("task", True)]
    wrong = tested.finds(plain_agent.url, **way)
    assert (wrong["works"], wrong["outcome"], wrong["credential"]) == (False, "credential_refused", "refused"), wrong
    assert "such as Bearer" in wrong["advice"]
    none = tested.finds(plain_agent.url, credential="", **way)
    assert (none["outcome"], none["credential"]) == ("credential_refused", "none")
    assert none["advice"] == "It wants a credential: set one."
    assert plain_agent.notes("began") == []


def test_nothing_is_sent_but_the_question_for_a_task_that_nobody_has(tested: Bench, far: FarSide) -> None:
    far.on["GetTask"] = [UNKNOWN]
    first, second = tested.finds(far.url), tested.asks().body
    assert first == second
    assert [request.name for request in far.requests] == ["card", "GetTask"] * 2, "what was found is not kept"
    ids = {request.body["params"]["id"] for request in far.named("GetTask")}
    assert len(ids) == 2
    assert {request.headers["authorization"] for request in far.requests} == {f"Bearer {SECRET}"}
    assert first["message"] == f"It answers in A2A 1.0 over JSON-RPC at {far.url}/rpc. It takes our credential."


FOUND: list[tuple[Answer, str, str]] = [
    (status(401), "credential_refused", "refused our credentials (401)"),
    (status(403), "credential_refused", "refused our credentials, or the call by them (403)"),
    (error(-32011, "Who?"), "credential_refused", "It said: Who?"),
    (status(404), "unproven", "perhaps no agent"),
    (status(400, body={"error": {"message": f"{SECRET} is no key"}}), "unproven", "is no key"),
    (result(told("working")), "unproven", "a task that there cannot be"),
    (error(-32601, "No such method."), "no_protocol", "No such method."),
    (error(-32009, "Not this version."), "no_protocol", "Not this version."),
    (status(302, "Location: http://127.0.0.1:1/"), "no_protocol", "redirects are not followed"),
    (raw(b"SSH-2.0-dropbear\r\n"), "no_protocol", "does not answer in HTTP"),
    (raw(said(200, b"<html>", "text/html")), "no_protocol", "'text/html'"),
    (result({}), "no_protocol", "none of the protocol"),
    (status(500), "failed", "failed at it (status 500)"),
    (status(503), "busy", "takes nothing now"),
    (raw(), "unreachable", "closed the connection"),
]


@pytest.mark.parametrize(("answer", "outcome", "words"), FOUND, ids=[f"{one[1]} {one[2]}" for one in FOUND])
def test_what_a_server_answers_is_told_for_what_it_is(
    tested: Bench, far: FarSide, answer: Answer, outcome: str, words: str
) -> None:
    far.on["GetTask"] = [answer]
    found = tested.finds(far.url)
    assert (found["works"], found["outcome"]) == (False, outcome), found
    assert words in found["message"]
    assert found["advice"]
    assert steps(found) == [("card", True), ("interface", True), ("task", False)]


CARDS: list[tuple[Answer, str, str]] = [
    (status(404), "no_interface", "There is no agent card at"),
    (plain({"name": "far", "supportedInterfaces": []}), "no_interface", "names no interface"),
    (plain([]), "no_protocol", "no JSON object"),
    (status(401), "credential_refused", "refused our credentials"),
    (status(500), "failed", "status 500"),
]


@pytest.mark.parametrize(("answer", "outcome", "words"), CARDS, ids=[f"{one[1]} {one[2]}" for one in CARDS])
def test_a_card_that_leads_nowhere_is_told(
    tested: Bench, far: FarSide, answer: Answer, outcome: str, words: str
) -> None:
    far.on["card"] = [answer]
    found = tested.finds(far.url)
    assert (found["outcome"], found["interface"]) == (outcome, None)
    assert words in found["message"]
    assert found["steps"][-1]["passed"] is False


def test_a_server_without_a_card_is_asked_where_it_was_set(tested: Bench, far: FarSide) -> None:
    far.on = {"card": [status(404)], "GetTask": [UNKNOWN]}
    found = tested.finds(f"{far.url}/rpc", wire_version="1.0", binding="JSONRPC")
    assert (found["outcome"], found["agent_name"]) == ("works", "")
    assert found["interface"]["url"] == f"{far.url}/rpc"
    assert "There is no card" in found["steps"][0]["message"]


def test_our_credential_stays_at_the_place_that_was_set(tested: Bench, far: FarSide, settings: Any) -> None:
    with far_side() as other:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {other.place}
        other.on["GetTask"] = [status(401), UNKNOWN]
        far.on["card"] = [plain(other.card())]
        refused, fine = tested.finds(far.url), tested.finds(far.url)
    assert (refused["outcome"], refused["credential"]) == ("credential_refused", "withheld")
    assert "goes only to the place that was set" in refused["advice"]
    assert (fine["outcome"], fine["credential"]) == ("works", "withheld")
    assert "without our credential" in fine["message"]
    assert all("authorization" not in request.headers for request in other.requests)


def test_an_address_that_is_not_called_is_said(tested: Bench, far: FarSide, settings: Any) -> None:
    """Also one that was when it was set, and one that only the card names."""
    way = {"url": "http://10.0.0.1/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    far.on["card"] = [plain(far.card(supportedInterfaces=[way]))]
    found = tested.finds(far.url)
    assert (found["outcome"], steps(found)[-1]) == ("blocked", ("task", False))
    settings.EGRESS_ALLOW = frozenset()
    found = tested.asks().body
    assert (found["outcome"], found["steps"][0]["step"]) == ("blocked", "card")
    assert "EGRESS_ALLOW" in found["message"]
    assert len(far.requests) == 1


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
def test_a_place_that_is_not_there_is_said(tested: Bench, settings: Any, binding: str) -> None:
    with far_side() as gone:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {gone.place, "nobody.invalid:443"}
    way = {"wire_version": "1.0", "binding": binding}
    assert tested.finds(gone.url, **way)["outcome"] == "unreachable"
    assert tested.finds("https://nobody.invalid/", **way)["outcome"] == "unknown_host"


@pytest.mark.parametrize(("binding", "outcome"), [("JSONRPC", "certificate"), ("GRPC", "unreachable")])
def test_a_certificate_that_is_not_trusted_is_said(
    tested: Bench, settings: Any, tmp_path: Path, binding: str, outcome: str
) -> None:
    with far_side(self_signed(tmp_path, "127.0.0.1").server()) as far:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {far.place}
        card = f"https://{far.place}/card.json" if binding == "JSONRPC" else f"https://{far.place}"
        found = tested.finds(card, wire_version="1.0", binding=binding)
    assert (found["outcome"], "certificate" in found["message"]) == (outcome, True), found
    assert far.requests == []


async def drip(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def flood(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


@pytest.mark.parametrize("step", ["card", "GetTask"])
@pytest.mark.parametrize("answer", [hang, drip, flood], ids=["hangs", "drips", "floods"])
def test_whatever_the_server_does_an_answer_comes_in_time(
    tested: Bench, far: FarSide, step: str, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "SECONDS", 0.5)
    monkeypatch.setattr(limits, "ANSWER", 1 << 20)
    far.on[step] = [answer]
    began = time.monotonic()
    found = tested.finds(far.url)
    assert time.monotonic() - began < 3
    assert found["outcome"] == ("no_protocol" if answer is flood else "timeout")


def test_both_questions_together_take_no_longer(tested: Bench, far: FarSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "SECONDS", 0.6)

    async def slow_card(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.4)
        await plain(far.card())(request, writer)

    far.on = {"card": [slow_card], "GetTask": [hang]}
    found = tested.finds(far.url)
    assert (found["outcome"], found["message"]) == ("timeout", "The remote agent did not answer within 0.6 s.")


GRPC: list[tuple[far_rpc.Answer, str, str]] = [
    (far_rpc.status("NOT_FOUND"), "works", "accepted"),
    (far_rpc.status("NOT_FOUND", "TaskNotFoundError: none"), "works", "accepted"),
    (far_rpc.status("UNAUTHENTICATED", f"Not {SECRET}"), "credential_refused", "refused"),
    (far_rpc.status("PERMISSION_DENIED"), "credential_refused", "refused"),
    (far_rpc.status("UNIMPLEMENTED"), "no_protocol", "unknown"),
    (far_rpc.status("INTERNAL"), "failed", "unknown"),
    (far_rpc.hang, "timeout", "unknown"),
]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize(("answer", "outcome", "credential"), GRPC, ids=[f"{one[1]}-{n}" for n, one in enumerate(GRPC)])
def test_a_server_of_grpc_alone_is_tested_too(
    tested: Bench, rpc: FarRpc, version: str, answer: far_rpc.Answer, outcome: str, credential: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(testing, "SECONDS", 1.0)
    rpc.on["GetTask"] = [answer]
    found = tested.finds(f"http://{rpc.place}", wire_version=version, binding="GRPC")
    assert (found["outcome"], found["credential"]) == (outcome, credential), found
    assert {one.rpc.operation for one in rpc.asked} == {"GetTask"}


def test_what_goes_wrong_here_is_an_answer_too(
    tested: Bench, far: FarSide, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("a2a.remote.finding.card", broken)
    found = tested.finds(far.url)
    assert (found["outcome"], found["message"]) == ("failed", "Something went wrong here: RuntimeError.")
    assert SECRET not in caplog.text


def test_who_may_not_choose_may_not_test(tested: Bench, far: FarSide) -> None:
    tested.set(far.url)
    assert tested.asks(calling(cast.user("otto", "operator"))).is_refused(403, "Unauthorized")
    assert tested.asks(calling(cast.user("ada", "auditor"))).is_refused(403, "Unauthorized")
    assert tested.asks(tested.stage.worker).is_refused(403, "Unauthorized")
    assert tested.asks(tested.stage.stranger).is_refused(404, "NotFound")
    assert far.requests == []
    assert not AuditEvent.objects.filter(event="runtime.tested").exists()


def test_an_agent_whose_tasks_go_to_no_server_has_none_to_test(tested: Bench) -> None:
    refused = tested.asks()
    assert refused.status == 409
    assert "go to no other A2A server" in refused.body["message"]


def test_a_test_is_on_record_with_what_it_found_and_without_the_credential(tested: Bench, far: FarSide) -> None:
    far.on["GetTask"] = [UNKNOWN, status(401)]
    tested.finds(far.url)
    tested.asks()
    fine, refused = AuditEvent.objects.filter(event="runtime.tested").order_by("at", "writer_seq")
    assert (fine.actor_name, fine.subject_id) == ("mara", tested.stage.writer.pk)
    assert fine.details == {"outcome": "works", "url": far.url, "version": "1.0", "binding": "JSONRPC"}
    assert refused.details["outcome"] == "credential_refused"
    assert all(SECRET not in str(vars(event)) for event in AuditEvent.objects.all())


def test_a_server_is_tested_by_one_at_a_time(tested: Bench, far: FarSide) -> None:
    tested.set(far.url)
    with testing._under_way.only(tested.stage.writer):
        refused = tested.asks()
    assert refused.status == 409
    assert far.requests == []
    far.on["GetTask"] = [UNKNOWN]
    assert tested.asks().body["works"] is True


@pytest.mark.parametrize(
    ("body", "outcome"),
    [(None, "unproven"), ({"error": "NotFound"}, "unproven"), ({"error": "TaskNotFoundError"}, "works")],
)
def test_a_plain_404_is_told_from_a_task_that_is_not_there(
    tested: Bench, far: FarSide, body: Any, outcome: str
) -> None:
    """Over REST, where both have the same status: 0.3 has but a name for it."""
    far.on["card"] = [status(404), status(404), status(404, body=body)]
    found = tested.finds(far.url, wire_version="0.3", binding="HTTP+JSON")
    assert found["outcome"] == outcome, found
    assert far.requests[-1].path.startswith("/v1/tasks/")


def test_a_process_tests_few_servers_at_once(tested: Bench, far: FarSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "MOST_AT_ONCE", 1)
    tested.set(far.url)
    with testing._under_way.only(tested.stage.planner):
        refused = tested.asks()
    assert (refused.status, "Other servers" in refused.body["message"]) == (409, True)


def test_a_credential_that_cannot_be_decrypted_is_said(tested: Bench, far: FarSide) -> None:
    tested.set(far.url)
    Runtime.objects.update(sealed_credential="v1:lost:AAAA")
    refused = tested.asks()
    assert (refused.status, "Set it again" in refused.body["message"]) == (409, True)
    assert far.requests == []


def test_a_loop_that_does_not_come_to_it_is_an_answer_too(
    tested: Bench, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck:
        def run(self, work: Any, **_: object) -> None:
            work.close()
            raise TimeoutError

    monkeypatch.setattr(testing, "loop", Stuck())
    found = tested.finds(far.url)
    assert (found["outcome"], steps(found)) == ("timeout", [("card", False)])
