"""The tools of a model that runs: what its identity may call now, and each call by the gateway's own way."""

import json
from collections.abc import Callable
from typing import Any

from common import strict_json
from common.context import RequestContext, bind_context
from common.errors import GatehouseError
from common.ids import uuid7
from mcp.gateway import pipeline
from mcp.gateway.types import CallRequest, CallResult, split_tool_name
from nhi.authorization.authentication import Unauthenticated
from nhi.choices import CallStatus
from nhi.credentials import tokens
from supervisor.chat import Call
from supervisor.chat.offers import MOST, Offer
from supervisor.choices import ErrorCategory
from supervisor.runner.words import CannotStart

#: Characters of one result that the model is given.
LONGEST_RESULT = 64 * 1024
CUT = "\n[The rest of this result was cut off.]"
UNKNOWN = "There is no such tool here that you may call."
SOURCE = "127.0.0.1"
Json = dict[str, Any]


class Tools:
    def __init__(self, token: str, tell: Callable[[str], None]) -> None:
        self._token = token
        self._tell = tell
        self._offer = Offer([])
        self._told_of_more = False

    async def offered(self) -> list[Json]:
        """What may be called now, as the API wants it; grants may have come and gone since the last time."""
        found = await pipeline.list_tools(self._token, source=SOURCE)
        if isinstance(found, Unauthenticated):
            raise CannotStart(ErrorCategory.PERMANENT, f"Its identity may not act now: {found.message}")
        self._offer = Offer(found.tools)
        if self._offer.left_out and not self._told_of_more:
            self._told_of_more = True
            self._tell(f"{self._offer.left_out} tools were left out: a model is offered {MOST} at most.")
        return self._offer.tools

    async def call(self, call: Call) -> str:
        """What came of a call, for the model to read: a result, or the sentence of its refusal."""
        name = self._offer.tool(call.name)
        request_id = uuid7()
        server, tool = split_tool_name(name)
        request = CallRequest(
            tokens.parse_known(self._token),
            server,
            tool,
            request_id=request_id,
            source=SOURCE,
            entry_point="model",
            **_arguments(call),
        )
        with bind_context(RequestContext(request_id, SOURCE)):
            try:
                outcome = await pipeline.call_tool(request)
            except GatehouseError as problem:
                # The gateway could not decide: nothing was called, and there is no row of it.
                self._tell(f"tool {name}: {problem.code}")
                return problem.message
        self._tell(f"tool {name}: {' '.join(filter(None, (outcome.status, outcome.reason)))}")
        return _cut(_shown(outcome))


def _arguments(call: Call) -> dict[str, Any]:
    """The arguments as fields of the request. Invalid ones are reported only after the decision whether the caller may
    see the tool."""
    try:
        arguments = strict_json.loads(call.arguments.encode() or b"{}")
    except strict_json.StrictJsonError as problem:
        return {"arguments": {}, "problem": f"The arguments cannot be read: {problem}"}
    if not isinstance(arguments, dict):
        return {"arguments": {}, "problem": "The arguments must be a JSON object."}
    return {"arguments": arguments}


def _shown(outcome: CallResult) -> str:
    if not outcome.tool_is_visible:
        return UNKNOWN
    if outcome.result is None or outcome.status not in {CallStatus.SUCCESS, CallStatus.ERROR}:
        return "\n".join((outcome.message, *(f"{place}: {said}" for place, said in outcome.fields)))
    blocks = outcome.result.get("content") or []
    text = "\n".join(_block(block) for block in blocks)
    if not text and "structuredContent" in outcome.result:
        text = json.dumps(outcome.result["structuredContent"], ensure_ascii=False)
    return f"The tool reported an error: {text}" if outcome.result.get("isError") else text


def _block(block: Json) -> str:
    """A model is given words: of whatever else a tool gives, that it is there."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"[{block.get('type', 'content')} {block.get('mimeType', '')}, not shown]"


def _cut(text: str) -> str:
    clean = text.encode(errors="replace").decode()
    return clean if len(clean) <= LONGEST_RESULT else clean[:LONGEST_RESULT] + CUT
