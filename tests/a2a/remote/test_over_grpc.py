"""What a server of gRPC's may do to a task that is carried to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from a2a.choices import TaskState
from a2a.remote import Carried, Credential, Target, limits
from a2a.remote import carrying as carrying_module
from a2a.wire.faults import Kind
from tests.a2a.remote import far_side
from tests.a2a.remote.conftest import Carrying, now_of, told
from tests.a2a.remote.far_rpc import Answer, FarRpc, far_rpc, fault, hang, raw, said, status
from tests.a2a.remote.far_side import FarSide, artifact, made, plain, task, update

pytestmark = pytest.mark.capability("A2A-07")
DONE = task("completed", artifacts=[artifact("report", "All agreed.")])


@pytest.fixture
def rpc(settings: Any) -> Iterator[FarRpc]:
    with far_rpc() as made:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {made.place}
        yield made


def named(rpc: FarRpc, **more: Any) -> Target:
    """Without a card: the interface itself."""
    return Target(f"http://{rpc.place}", **{"version": "1.0", "binding": "GRPC", **more})


def test_a_server_that_speaks_nothing_else_needs_no_card(carrying: Carrying, rpc: FarRpc) -> None:
    rpc.on["SendStreamingMessage"] = [said({"task": task("submitted")}, update("working"), {"task": DONE})]
    sent = carrying.does("report")
    assert carrying.carry(sent, named(rpc, credential=Credential("Authorization", "Bearer s3cret"))) == Carried.ENDED
    assert now_of(sent).result == {"text": "All agreed."}
    (asked,) = rpc.asked
    assert asked.metadata["authorization"] == "Bearer s3cret"
    assert asked.metadata["a2a-version"] == "1.0"
    assert asked.body["metadata"]["gatehouse/task_id"] == str(sent.pk)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_card_that_names_grpc_alone_leads_there_with_its_tenant_and_our_credential(
    carrying: Carrying, rpc: FarRpc, far: FarSide, version: str
) -> None:
    """The port is another, the host is the one that was set."""
    way = {"url": rpc.place, "protocolBinding": "GRPC", "protocolVersion": version, "tenant": "writer"}
    far.on["card"] = [plain({**far.card(), "supportedInterfaces": [way], "capabilities": {}})]
    old = {"id": "far-task", "contextId": "far-context", "status": {"state": "TASK_STATE_COMPLETED"}}
    rpc.on["SendMessage"] = [said({"task": DONE if version == "1.0" else old})]
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url, credential=Credential("X-Key", "s3cret")))
    done = now_of(sent)
    assert (done.state, done.remote.binding, done.remote.version) == (TaskState.COMPLETED, "GRPC", version)
    (asked,) = rpc.asked
    assert asked.metadata["x-key"] == "s3cret"
    assert asked.body.get("tenant") == ("writer" if version == "1.0" else None)


@pytest.mark.parametrize(
    "url", ["unix:///run/agent.sock", "file:///etc/passwd", "dns:///", "http://", "", 7, "ftp://a:1"]
)
def test_a_card_that_names_no_place_for_it_names_no_way(carrying: Carrying, far: FarSide, url: object) -> None:
    way = {"url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    far.on["card"] = [plain({**far.card(), "supportedInterfaces": [way]})]
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url, binding="GRPC", credential=Credential("X-Key", "s3cret")))
    assert now_of(sent).error_code == "remote_no_interface"


def test_a_card_may_tell_of_it_as_its_library_does(carrying: Carrying, rpc: FarRpc, far: FarSide) -> None:
    way = {"url": f"dns:///{rpc.place}", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    far.on["card"] = [plain({**far.card(), "supportedInterfaces": [way], "capabilities": {}})]
    rpc.on["SendMessage"] = [said({"task": DONE})]
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert now_of(sent).result == {"text": "All agreed."}


def test_a_card_that_is_to_be_had_later_is_waited_for(carrying: Carrying, rpc: FarRpc, far: FarSide) -> None:
    way = {"url": rpc.place, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    found = plain({**far.card(), "supportedInterfaces": [way], "capabilities": {}})
    far.on["card"] = [far_side.status(503), far_side.status(429), found]
    rpc.on["SendMessage"] = [said({"task": DONE})]
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url, version="1.0", binding="GRPC"))
    assert now_of(sent).result == {"text": "All agreed."}


def test_our_credential_goes_to_no_other_host(carrying: Carrying, rpc: FarRpc, far: FarSide, settings: Any) -> None:
    settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {f"localhost:{rpc.port}"}
    way = {"url": f"localhost:{rpc.port}", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    far.on["card"] = [plain({**far.card(), "supportedInterfaces": [way]})]
    rpc.on["SendMessage"] = [said({"task": DONE})]
    carrying.carry(carrying.does("report"), Target(far.url, credential=Credential("X-Key", "s3cret")))
    (asked,) = rpc.asked
    assert "s3cret" not in str(asked.metadata)


def test_json_is_preferred_where_nobody_chose(carrying: Carrying, rpc: FarRpc, far: FarSide) -> None:
    """So that an update of Gatehouse moves no task that went well."""
    ways = [
        {"url": rpc.place, "protocolBinding": "GRPC", "protocolVersion": "1.0"}, *far.card()["supportedInterfaces"]
    ]  # fmt: skip
    far.on["card"] = [plain({**far.card(), "supportedInterfaces": ways})]
    carrying.carry(carrying.does("report"), Target(far.url))
    assert (len(far.named("SendMessage")), rpc.asked) == (1, [])


REFUSALS: list[tuple[Answer, str, str]] = [
    (status("UNAUTHENTICATED", "Who?"), "remote_refused", "refused our credentials (status UNAUTHENTICATED). It said"),
    (status("PERMISSION_DENIED"), "remote_refused", "refused our credentials, or the call by them"),
    (status("INVALID_ARGUMENT", "Too \x1b[31m\nloud"), "remote_refused", "It said: Too \\u001b[31m"),
    (status("INTERNAL", "Oh."), "remote_error", "failed at it (status INTERNAL). It said: Oh."),
    (status("UNKNOWN"), "remote_error", "failed at it"),
    (status("NOT_FOUND"), "remote_refused", "status NOT_FOUND"),
    (fault(Kind.CONTENT_TYPE, "Text alone."), "remote_refused", "It said: Text alone."),
    (fault(Kind.INVALID_RESPONSE, "Oh."), "remote_error", "failed at it"),
    (status("DEADLINE_EXCEEDED"), "remote_timeout", "is not sent twice"),
    (status("UNAVAILABLE"), "remote_lost", "is not sent twice"),
    (raw(b"\xff\xff"), "remote_invalid_answer", "none of the protocol"),
    (raw(b""), "remote_invalid_answer", "neither a task nor a message"),
    (said({"task": {"id": "", "status": {"state": 3}}}), "remote_invalid_answer", "has no id"),
]


@pytest.mark.parametrize(("answer", "code", "words"), REFUSALS)
def test_an_answer_that_is_none_fails_the_task_and_is_never_asked_for_twice(
    carrying: Carrying, rpc: FarRpc, far: FarSide, answer: Answer, code: str, words: str
) -> None:
    way = {"url": rpc.place, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    far.on["card"] = [plain({**far.card(), "supportedInterfaces": [way]})]
    rpc.on["SendMessage"] = [answer]
    sent = carrying.does("report")
    assert carrying.carry(sent, Target(far.url)) == Carried.ENDED
    done = now_of(sent)
    assert (done.error_code, len(rpc.asked)) == (code, 1)
    assert words in done.error_message
    assert done.error_message.isprintable()


def test_a_server_that_says_later_is_asked_again(carrying: Carrying, rpc: FarRpc) -> None:
    rpc.on["SendStreamingMessage"] = [
        status("RESOURCE_EXHAUSTED", "", ("retry-after", "0")),
        fault(Kind.UNAVAILABLE, "Not now."),
        said({"task": DONE}),
    ]
    sent = carrying.does("report")
    carrying.carry(sent, named(rpc))
    assert now_of(sent).result == {"text": "All agreed."}
    assert len({asked.body["message"]["messageId"] for asked in rpc.asked}) == 1
    assert len(rpc.asked) == 3


def test_one_that_is_away_is_given_up_and_nothing_was_sent(carrying: Carrying, settings: Any) -> None:
    with far_rpc() as gone:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {gone.place}
    sent = carrying.does("report")
    carrying.carry(sent, named(gone))
    done = now_of(sent)
    assert (done.error_code, done.remote.leaving) == ("remote_unreachable", None)


def test_a_message_that_is_too_large_is_not_read(
    carrying: Carrying, rpc: FarRpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENT", 10_000)
    rpc.on["SendStreamingMessage"] = [said({"task": {**DONE, "metadata": {"long": "x" * 20_000}}})]
    sent = carrying.does("report")
    carrying.carry(sent, named(rpc))
    assert now_of(sent).error_code == "remote_too_large"


@pytest.mark.parametrize("end", [status("UNAVAILABLE"), status("INTERNAL"), said(), hang])
def test_a_stream_that_ends_early_or_falls_silent_is_taken_up_again(
    carrying: Carrying, rpc: FarRpc, monkeypatch: pytest.MonkeyPatch, end: Answer
) -> None:
    monkeypatch.setattr(carrying_module, "IDLE_SECONDS", 0.3)
    rpc.on["SendStreamingMessage"] = [said({"task": task("working", "Reading.")}, made("report", "All "), then=end)]
    known = artifact("report", "All ")
    rpc.on["GetTask"] = [said(task("working", "Reading.", artifacts=[known]))]
    rpc.on["SubscribeToTask"] = [
        said({"task": task("working", "Reading.", artifacts=[known])}, made("report", "agreed.", append=True),
             update("completed", "Done."))
    ]  # fmt: skip
    sent = carrying.does("report")
    assert carrying.carry(sent, named(rpc)) == Carried.ENDED
    assert told(now_of(sent)) == [
        "task", ("working", "Reading."), ("report", "All ", False), ("report", "agreed.", True), ("completed", "Done."),
    ]  # fmt: skip


def test_a_server_without_streams_is_asked_for_the_task(carrying: Carrying, rpc: FarRpc) -> None:
    rpc.on["SendMessage"] = [said({"task": task("working")})]
    rpc.on["GetTask"] = [said(DONE)]
    sent = carrying.does("report")
    assert carrying.carry(sent, named(rpc)) == Carried.ENDED
    assert now_of(sent).result == {"text": "All agreed."}


@pytest.mark.parametrize("header", ["X!Key", "key-bin", "grpc-key"])
def test_a_credential_that_grpc_cannot_carry_is_said_to_be_so(carrying: Carrying, rpc: FarRpc, header: str) -> None:
    sent = carrying.does("report")
    carrying.carry(sent, named(rpc, credential=Credential(header, "s3cret")))
    done = now_of(sent)
    assert (done.error_code, rpc.asked) == ("remote_refused", [])
    assert header in done.error_message


def test_what_grpc_cannot_carry_is_not_sent(carrying: Carrying, rpc: FarRpc) -> None:
    deep: Any = "end"
    for _ in range(60):
        deep = {"a": deep}
    sent = carrying.sent({"data": deep})
    carrying.carry(sent, named(rpc))
    done = now_of(sent)
    assert (done.error_code, rpc.asked) == ("remote_refused", [])
    assert "nested too deep" in done.error_message
