"""A test of a server ends in time whatever that does, is for who may choose it, is on record, and tells no secret."""

import asyncio
import time
from typing import Any

import pytest

from a2a.models import Runtime
from a2a.remote import limits, testing
from nhi.models import AuditEvent
from tests.a2a.remote.bench import SECRET, UNKNOWN, Bench, steps
from tests.a2a.remote.far_side import Answer, FarSide, Request, hang, plain, status
from tests.api.callers import calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.django_db, pytest.mark.both_databases]


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
    tested.set(far.url)
    began = time.monotonic()
    found = tested.asks().body
    assert time.monotonic() - began < 5
    assert found["outcome"] == ("no_protocol" if answer is flood else "timeout")


#: Places that a card may name, and words that it may have.
ODD_URLS = [
    "http:///x", "http://:80/", "http://[::1", "http://a:99999999/", "http://a b/", "http://u:p@a/", "//", "http:a",
    "http://\ud800/", "http://a/\x00", "http://127.1/", "https://" + "a" * 5000, "", 7, None, {}, "grpc://a",
]  # fmt: skip
ODD_CARDS: list[Answer] = [
    status(400, body={"error": {"code": -32001, "message": "Task not found"}}),
    status(400, body={"error": {"code": -32010, "message": "Nothing"}}),
    status(400, body={"error": {"code": True, "details": [{"reason": {}}], "message": 7}}),
    status(400, body={"error": "TaskNotFoundError"}),
    status(204),
    status(600),
    status(100),
    plain({"name": {"a": 1}, "supportedInterfaces": {}}),
    plain({"name": "\ud800\x00", "supportedInterfaces": [None, 1, {}]}),
]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
def test_an_odd_place_on_a_card_is_an_answer_too(tested: Bench, far: FarSide, binding: str) -> None:
    tested.set(far.url)
    for url in ODD_URLS:
        way = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
        far.on["card"] = [plain(far.card(supportedInterfaces=[way]))]
        found = tested.asks()
        assert (found.status, found.body["works"]) == (200, False), (url, found.body)
        assert found.body["advice"] or found.body["outcome"] == "blocked", (url, found.body)


def test_an_odd_card_is_an_answer_too(tested: Bench, far: FarSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "SECONDS", 1.0)
    tested.set(far.url)
    for number, answer in enumerate(ODD_CARDS):
        far.on["card"] = [answer]
        found = tested.asks()
        assert (found.status, found.body["works"], found.body["interface"]) == (200, False, None), (number, found.body)
        assert found.body["outcome"] != "unproven", (number, found.body)


def test_both_questions_together_take_no_longer(tested: Bench, far: FarSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "SECONDS", 4.0)
    card_read: list[float] = []

    async def slow_card(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1.5)
        card_read.append(time.monotonic())
        await plain(far.card())(request, writer)

    far.on = {"card": [slow_card], "GetTask": [hang]}
    found = tested.finds(far.url)
    assert time.monotonic() - card_read[0] < 3.5
    assert (found["outcome"], found["message"]) == ("timeout", "The remote agent did not answer within 4 s.")
    assert steps(found) == [("card", True), ("interface", True), ("task", False)]


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

    monkeypatch.setattr(testing, "background_loop", Stuck())
    found = tested.finds(far.url)
    assert (found["outcome"], steps(found)) == ("timeout", [("card", False)])
