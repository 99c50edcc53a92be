"""What a caller says around a call is taken, bounded and kept alike at both doors."""

from typing import Any

import pytest

from common.errors import InvalidInput
from mcp.gateway.types import CallContext
from mcp.server import rest_renderer
from mcp.server.request_parser import CONTEXT_FIELDS, CONTEXT_KEY, McpRequest
from tests.front.asking import META, body, headers, message, parsed

pytestmark = pytest.mark.capability("MCP-06", "MCP-07")


def over_mcp(said: dict[str, Any]) -> CallContext | None:
    of = message(meta={**META, CONTEXT_KEY: said})
    found = parsed(headers(of), body(of))
    return rest_renderer.build_call_context(found.context) if isinstance(found, McpRequest) else None


def over_rest(said: dict[str, Any]) -> CallContext | None:
    try:
        return rest_renderer.parse_call_body({"parameters": {}, "context": said})["context"]
    except InvalidInput:
        return None


@pytest.mark.parametrize("name", CONTEXT_FIELDS)
def test_each_field_has_one_limit(name: str) -> None:
    fits, over = {name: "x" * CONTEXT_FIELDS[name]}, {name: "x" * (CONTEXT_FIELDS[name] + 1)}
    assert over_mcp(fits) == over_rest(fits) == rest_renderer.build_call_context(fits)
    assert over_mcp(over) is over_rest(over) is None


@pytest.mark.parametrize("odd", [{"thread_id": "x"}, {"who": "x"}, {"task_id": 5}, {"task_id": ["x"]}])
def test_what_is_no_such_field_is_refused_at_both(odd: dict[str, Any]) -> None:
    assert over_mcp(odd) is over_rest(odd) is None


def test_all_of_it_is_kept() -> None:
    said = {name: name for name in CONTEXT_FIELDS}
    assert (
        over_mcp(said) == over_rest(said) == CallContext("conversation_id", "session_id", "task_id", "user_instruction")
    )
