"""The protocol's words, without a network: cards of every kind, requests, and what is read of answers."""

from typing import Any

import pytest

from a2a.remote import asking, cards, finding, reading
from a2a.remote.reading import Unreadable
from a2a.remote.target import Interface, Target

pytestmark = pytest.mark.capability("A2A-07")
BASE = "https://agents.example.com/minutes/.well-known/agent-card.json"
NEW = [
    {"url": "grpc.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
    {"url": "https://a.example.com/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
    {"url": "https://a.example.com/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0.1", "tenant": "t/1"},
    {"url": "https://a.example.com/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
]
CARD = {"supportedInterfaces": NEW, "capabilities": {"streaming": True}}
OLD = {
    "protocolVersion": "0.3.0",
    "url": "https://a.example.com/v03",
    "additionalInterfaces": [{"url": "/rest", "transport": "HTTP+JSON"}, {"url": "http://[", "transport": "JSONRPC"}],
}
IDS = {"taskId": "t", "contextId": "c"}
MESSAGE = {
    "messageId": "m-1",
    "role": "ROLE_USER",
    "taskId": "t-1",
    "parts": [
        {"text": "Hello.", "metadata": {"lang": "en"}},
        {"data": {"a": 1}, "mediaType": "application/json"},
        {"data": [1]},
        {"raw": "AAE=", "mediaType": "image/png", "filename": "a.png"},
        {"url": "https://files.example.com/a"},
    ],
}


@pytest.mark.parametrize(
    ("card", "asked", "found"),
    [
        (CARD, {}, ("https://a.example.com/rest", "1.0", "HTTP+JSON", "t/1", True)),
        (CARD, {"binding": "JSONRPC"}, ("https://a.example.com/rpc", "1.0", "JSONRPC", "", True)),
        (CARD, {"version": "0.3"}, ("https://a.example.com/old", "0.3", "JSONRPC", "", True)),
        (CARD, {"version": "0.3", "binding": "HTTP+JSON"}, None),
        (OLD, {}, ("https://a.example.com/v03", "0.3", "JSONRPC", "", False)),
        (OLD, {"binding": "HTTP+JSON"}, ("https://agents.example.com/rest", "0.3", "HTTP+JSON", "", False)),
        (OLD, {"version": "1.0"}, None),
        (
            {**OLD, **CARD},
            {"version": "0.3", "binding": "HTTP+JSON"},
            ("https://agents.example.com/rest", "0.3", "HTTP+JSON", "", True),
        ),
        ({"url": "https://a.example.com"}, {}, ("https://a.example.com", "0.3", "JSONRPC", "", False)),
        (
            {"supported_interfaces": [{"url": "/x", "protocol_binding": "jsonrpc", "protocol_version": "1.0"}]},
            {},
            ("https://agents.example.com/x", "1.0", "JSONRPC", "", False),
        ),
        ({"supportedInterfaces": "none", "url": 3}, {}, None),
        ({"supportedInterfaces": [{**NEW[3], "protocolVersion": "2.0"}]}, {}, None),
    ],
)  # fmt: skip
def test_the_way_that_the_card_prefers_is_taken_of_the_newest_version(
    card: dict[str, Any], asked: dict[str, Any], found: tuple[Any, ...] | None
) -> None:
    chosen = cards.choose(card, target=Target(BASE, **asked), base=BASE)
    assert chosen == (None if found is None else Interface(*found))


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("https://a.example.com/card.json", ["https://a.example.com/card.json"]),
        ("https://a.example.com/x/", ["https://a.example.com/x/.well-known/agent-card.json", "https://a.example.com/x/.well-known/agent.json"]),
    ],
)  # fmt: skip
def test_a_card_is_looked_for_where_it_may_be(url: str, places: list[str]) -> None:
    assert finding.places(url) == places


@pytest.mark.parametrize(
    ("base", "version", "tenant", "url"),
    [
        ("https://a/x", "1.0", "", "https://a/x/tasks/a%2Fb%3Ac:cancel"),
        ("https://a/x/", "1.0", "t/1", "https://a/x/t%2F1/tasks/a%2Fb%3Ac:cancel"),
        ("https://a/x", "0.3", "", "https://a/x/v1/tasks/a%2Fb%3Ac:cancel"),
        ("https://a/x/v1", "0.3", "", "https://a/x/v1/tasks/a%2Fb%3Ac:cancel"),
    ],
)
def test_rest_paths_take_any_id(base: str, version: Any, tenant: str, url: str) -> None:
    call = asking.of_task(Interface(base, version, "HTTP+JSON", tenant), "cancel", "a/b:c")
    assert (call.http, call.url, call.body) == ("POST", url, {})


def test_jsonrpc_repeats_the_tenant() -> None:
    call = asking.of_task(Interface("https://a", "1.0", "JSONRPC", "t-1"), "get", "x")
    assert call.body is not None
    assert (call.body["method"], call.body["params"]) == ("GetTask", {"tenant": "t-1", "id": "x"})


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_message_that_is_written_for_a_version_is_read_as_it_was(version: Any, binding: Any) -> None:
    interface = Interface("https://a", version, binding)
    call = asking.sending(interface, MESSAGE, streamed=False, metadata={})
    assert call.body is not None
    written = call.body["params"]["message"] if binding == "JSONRPC" else call.body["message"]
    read = reading.message(written, old=interface.untagged_old)
    assert _without_media_types_of_data(read["parts"]) == _without_media_types_of_data(MESSAGE["parts"])
    assert (read["messageId"], read["taskId"]) == ("m-1", "t-1")


def _without_media_types_of_data(parts: Any) -> list[dict[str, Any]]:
    """0.3 has none."""
    return [{name: said for name, said in part.items() if name != "mediaType" or "raw" in part} for part in parts]


@pytest.mark.parametrize(
    "said",
    [
        {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED"}}},
        {"task": {"id": "t", "context_id": "c", "status": {"state": "TASK_STATE_CANCELLED"}}},
        {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED"}},
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "canceled"}, "artifacts": None},
    ],
)
def test_a_task_is_read_however_it_is_spelled(said: dict[str, Any]) -> None:
    status = {"state": "TASK_STATE_CANCELED", "timestamp": ""}
    assert reading.item(said) == {"task": {"id": "t", "contextId": "c", "status": status, "artifacts": []}}
    assert reading.ends(reading.item(said))


@pytest.mark.parametrize(
    "said",
    [
        {"artifactUpdate": {**IDS, "append": True, "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}}},
        {
            "artifact_update": {
                "task_id": "t",
                "context_id": "c",
                "append": True,
                "artifact": {"artifact_id": "a", "parts": [{"text": "x"}]},
            }
        },
        {
            "kind": "artifact-update",
            **IDS,
            "append": True,
            "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]},
        },
    ],
)  # fmt: skip
def test_an_artifact_is_read_however_it_is_spelled(said: dict[str, Any]) -> None:
    made = {"artifactId": "a", "parts": [{"text": "x"}]}
    told = {"taskId": "t", "contextId": "c", "artifact": made, "append": True, "lastChunk": False}
    assert reading.item(said) == {"artifactUpdate": told}


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"state": "input-required"}, "TASK_STATE_INPUT_REQUIRED"),
        ({"state": "TASK_STATE_AUTH_REQUIRED"}, "TASK_STATE_AUTH_REQUIRED"),
        ({"state": "unknown"}, reading.UNKNOWN),
        ({"state": 6}, reading.UNKNOWN),
        ({}, reading.UNKNOWN),
    ],
)
def test_a_state_that_is_none_is_unknown(said: dict[str, Any], state: str) -> None:
    item = reading.item({"kind": "status-update", "taskId": "t", "status": said, "final": False})
    assert item["statusUpdate"]["status"]["state"] == state
    assert not reading.ends(item)


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {"task": "t"},
        {"id": "", "status": {}},
        {"id": "t" * 501, "status": {}},
        {"id": "t", "status": "done"},
        {"id": "t", "status": {}, "artifacts": {}},
        {"id": "t", "status": {"message": "hello"}},
        {"messageId": "m", "parts": "hello"},
        {"messageId": "m", "parts": [{}]},
        {"messageId": "m", "parts": [{"text": 3}]},
        {"messageId": "m", "parts": [{"file": {}}]},
        {"messageId": "m", "parts": [{"text": "x"}] * (reading.MOST_PARTS + 1)},
    ],
)
def test_what_is_of_another_type_is_refused(said: Any) -> None:
    with pytest.raises(Unreadable):
        reading.item(said)
