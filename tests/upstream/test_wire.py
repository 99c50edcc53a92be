"""The protocol without the network: streams cut anywhere, headers that carry anything, envelopes that fit or do not."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.egress import event_stream
from common.errors import PayloadTooLarge
from mcp.client.http_exchange import parse_events
from mcp.protocol import headers, jsonrpc, legacy, modern
from mcp.protocol.progress import ProgressFilter
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from mcp.server import request_headers

pytestmark = pytest.mark.capability("MCP-03")

LIMIT = 1 << 20
STREAM = (
    "\ufeffevent: endpoint\ndata: /m\n\n: a comment\n\nid: 7\r\ndata: ä\r\ndata:€😀\r\rretry: 1500\nretry: soon\n"
    "event\ndata: one\rid: 8\n\ndata\n\nid: 9\n\nunknown: x\ndata:  two \r\n\r\ndata: cut off"
).encode()
EVENTS = [
    event_stream.ServerSentEvent(b"/m", "endpoint", ""),
    event_stream.ServerSentEvent("ä\n€😀".encode(), "message", "7"),
    event_stream.ServerSentEvent(b"one", "message", "8"),
    event_stream.ServerSentEvent(b" two ", "message", "9"),
]


def parsed(chunks: list[bytes]) -> tuple[list[event_stream.ServerSentEvent], event_stream.EventStreamParser]:
    parser = event_stream.EventStreamParser(LIMIT)
    return [event for chunk in chunks for event in parser.feed(chunk)], parser


@given(st.lists(st.integers(0, len(STREAM)), max_size=12).map(sorted))
def test_a_stream_reads_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    edges = [0, *cuts, len(STREAM)]
    events, parser = parsed([STREAM[start:end] for start, end in itertools.pairwise(edges)])
    assert events == EVENTS
    assert (parser.last_id, parser.retry) == ("9", 1.5)


def test_a_stream_reads_the_same_byte_by_byte() -> None:
    assert parsed([STREAM[at : at + 1] for at in range(len(STREAM))])[0] == EVENTS


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 1000, b"data: x\n" * 10, b": " + b"x" * 1000, b"x"])
def test_an_event_has_a_limit_however_it_is_made(chunk: bytes) -> None:
    parser = event_stream.EventStreamParser(LIMIT)
    with pytest.raises(PayloadTooLarge):
        for _ in range(LIMIT + 1):
            assert not list(parser.feed(chunk))


def test_an_event_beyond_the_limit_is_a_fault_of_the_server() -> None:
    with pytest.raises(UpstreamFault, match="too_large") as caught:
        list(parse_events(event_stream.EventStreamParser(1 << 20), b"data: " + b"x" * (1 << 20)))
    assert "more than 1 MiB" in caught.value.detail
    assert caught.value.sent


def test_many_small_events_have_none() -> None:
    parser = event_stream.EventStreamParser(100)
    assert sum(len(list(parser.feed(b"data: x\n\n"))) for _ in range(1000)) == 1000


@given(st.text())
def test_a_header_value_comes_back_whole(text: str) -> None:
    encoded = headers.encode_value(text)
    assert all(" " <= character <= "~" for character in encoded)
    assert encoded == encoded.strip()
    assert request_headers.decode_value(encoded) == text


ANNOTATED = {"type": "string", headers.MIRROR_KEYWORD: "A"}
WRONG: dict[str, tuple[Any, str]] = {
    "at the root": (ANNOTATED, "by names alone"),
    "in an array": ({"properties": {"a": {"items": ANNOTATED}}}, "by names alone"),
    "under a choice": ({"properties": {"a": {"anyOf": [ANNOTATED]}}}, "by names alone"),
    "below a choice": ({"oneOf": [{"properties": {"a": ANNOTATED}}]}, "by names alone"),
    "in a definition": ({"$defs": {"a": ANNOTATED}}, "by names alone"),
    "no name": ({"properties": {"a": {"type": "string", headers.MIRROR_KEYWORD: "a b"}}}, "no header name"),
    "an empty name": ({"properties": {"a": {"type": "string", headers.MIRROR_KEYWORD: ""}}}, "no header name"),
    "a number for a name": ({"properties": {"a": {"type": "string", headers.MIRROR_KEYWORD: 5}}}, "no header name"),
    "a line break": ({"properties": {"a": {"type": "string", headers.MIRROR_KEYWORD: "A\n"}}}, "no header name"),
    "a float": ({"properties": {"a": {"type": "number", headers.MIRROR_KEYWORD: "A"}}}, "neither"),
    "two types": ({"properties": {"a": {"type": ["string"], headers.MIRROR_KEYWORD: "A"}}}, "neither"),
    "twice": (
        {"properties": {"a": ANNOTATED, "b": {"type": "string", headers.MIRROR_KEYWORD: "a"}}}, "there twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_annotation_is_found(schema: Any, says: str) -> None:
    assert says in headers.find_annotation_problem(schema)
    assert headers.find_bindings(schema) == ()


@pytest.mark.parametrize("schema", [None, True, [], {}, {"default": ANNOTATED}, {"enum": [ANNOTATED]}])
def test_what_is_no_annotation_is_not_wrong(schema: Any) -> None:
    assert headers.find_annotation_problem(schema) == ""
    assert headers.find_bindings(schema) == ()


def test_a_deep_schema_is_walked() -> None:
    schema: Any = ANNOTATED
    for _ in range(1000):
        schema = {"properties": {"a": schema}}
    assert headers.find_annotation_problem(schema) == ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(VALUES)
def test_whatever_json_can_say_is_sent(value: Any) -> None:
    assert json.loads(jsonrpc.encode(jsonrpc.request(1, "m", {"v": value})))["params"]["v"] == value


@pytest.mark.parametrize(
    ("answered", "asked", "fits"),
    [
        (1, 1, True),
        ("1", 1, False),
        (1, "1", False),
        (True, 1, False),
        (1.0, 1, False),
        (None, 1, False),
        (2, 1, False),
    ],
)
def test_an_answer_fits_its_request_exactly(answered: Any, asked: Any, fits: bool) -> None:
    assert jsonrpc.is_answer_to({"id": answered, "result": {}}, asked) is fits


def test_an_error_without_an_id_answers_the_one_request_there_is() -> None:
    assert jsonrpc.is_answer_to({"id": None, "error": {}}, 1)
    assert not jsonrpc.is_answer_to({"id": 1, "method": "ping"}, 1)


@pytest.mark.parametrize(
    ("code", "callers"), [(-32602, True), (-32601, True), (-32600, True), (-32603, False), (-32000, False), (5, False)]
)
def test_who_is_to_blame_for_an_error(code: int, callers: bool) -> None:
    assert UpstreamError(code, "no").blames_caller is callers


def test_progress_is_only_the_requests_own() -> None:
    progress = ProgressFilter(7)

    def said(**params: Any) -> Any:
        return progress.select({"method": "notifications/progress", "params": params})

    assert said(progressToken=7, progress=1, _meta={"x": 1}) == {"progress": 1}
    assert said(progressToken=8, progress=2) is None
    assert said(progressToken=7, progress=1) is None
    assert said(progressToken=7, progress="2") is None
    assert said(progressToken=7, progress=1.5, total=2) == {"progress": 1.5, "total": 2}
    assert progress.select({"method": "notifications/progress", "params": []}) is None


@pytest.mark.parametrize("version", ["2026-07-28", "2099-01-01", None, 5, ["2025-11-25"]])
def test_only_versions_of_the_handshake_are_agreed_on_there(version: Any) -> None:
    with pytest.raises(UpstreamFault, match="not spoken here"):
        legacy.parse_initialize_result({"protocolVersion": version})


@pytest.mark.parametrize("supported", [None, 5, "2026-07-28", {}, [None, 5, ["2026-07-28"]], ["2099-01-01"]])
def test_a_server_that_names_no_version_of_ours_names_none(supported: Any) -> None:
    assert modern.mutual_version(supported) == ""
    assert modern.includes_handshake_version(supported) is False
