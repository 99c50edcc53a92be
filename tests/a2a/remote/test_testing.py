"""A server behind an agent is tested before a task is sent there: what is found is said, and nothing is worked on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a.remote import testing
from tests.a2a.remote import far_rpc
from tests.a2a.remote.bench import SECRET, UNKNOWN, Bench, steps
from tests.a2a.remote.far_rpc import FarRpc
from tests.a2a.remote.far_side import Answer, FarSide, error, far_side, plain, raw, result, said, status
from tests.a2a.remote.far_side import task as told
from tests.egress.tls import self_signed
from tests.services.peers import PeerAgent

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.django_db, pytest.mark.both_databases]
WAYS = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")]


@pytest.fixture
def rpc(settings: Any) -> Iterator[FarRpc]:
    with far_rpc.far_rpc() as made:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {made.place}
        yield made


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
    assert "No card can be read" in found["steps"][0]["message"]


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
    if answer is far_rpc.hang:
        monkeypatch.setattr(testing, "SECONDS", 1.0)
    rpc.on["GetTask"] = [answer]
    found = tested.finds(f"http://{rpc.place}", wire_version=version, binding="GRPC")
    assert (found["outcome"], found["credential"]) == (outcome, credential), found
    assert {one.rpc.operation for one in rpc.asked} == {"GetTask"}


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
