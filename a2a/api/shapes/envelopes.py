"""Seed 001's envelope as the description has it; `a2a.wire.envelopes` reads and writes it."""

from typing import Any

from rest_framework import serializers

from a2a.api.shapes.tasks import CONTEXT, TASK
from common.api.fields import Mapping, Moment, Text, Texts, Whole
from common.api.shapes import Input, Shape
from nhi.api.shapes import examples as story

ASKED = "3f0f7a62-5a0e-4a53-9c0f-1f6c2a6b7c01"
CONTEXT_OF = {"from": "deploy-bot", "to": "writer", "conversationId": "", "messageId": "m-1"}
DONE = {"kind": "task", "id": TASK, "contextId": CONTEXT, "status": {"state": "submitted", "timestamp": story.NOW}}


class OfEnvelope(Input):
    strict = False  # as in the protocol's own JSON: what is not known is left out


class ContextGiven(OfEnvelope):
    to = Text(required=False, help_text="The agent, by name or id; `status` of nothing in particular needs none.")
    conversationId = Text(required=False, help_text="The task's context; made up when left out.")  # noqa: N815 - its name on the wire
    messageId = Text(required=False)  # noqa: N815 - the same

    def get_fields(self) -> dict[str, Any]:
        who = Text(required=False, help_text="The caller's own name or id, or nothing.")
        return {"from": who, **super().get_fields()}


class PayloadGiven(OfEnvelope):
    method = Text(help_text="`execute-agent` or `status`.")
    params = Mapping(
        required=False,
        help_text="`{input, parameters, taskType}`, or what `SendMessage` takes; of a status `{id}`, or nothing.",
    )


class EnvelopeGiven(OfEnvelope):
    protocol = Text(help_text="`a2a`.")
    version = Text(required=False, help_text="Of the protocol: `0.3`, which is usual, or `1.0`, with any patch.")
    id = Text(help_text="At most 200 characters; the answer names it in `inResponseTo`.")
    type = Text(help_text="`request`.")
    timestamp = Moment(required=False)
    context = ContextGiven(required=False)  # type: ignore[assignment]  # its name on the wire; the metaclass takes it away
    payload = PayloadGiven()

    example = {
        "protocol": "a2a",
        "version": "0.3.0",
        "id": ASKED,
        "type": "request",
        "timestamp": story.NOW,
        "context": CONTEXT_OF,
        "payload": {"method": "execute-agent", "params": {"input": "Summarise the minutes."}},
    }


class ContextShape(Shape):
    to = Text()
    conversationId = Text()  # noqa: N815 - its name on the wire
    messageId = Text()  # noqa: N815 - the same

    def get_fields(self) -> dict[str, Any]:
        return {"from": Text(), **super().get_fields()}


class ErrorShape(Shape):
    code = Whole(help_text="As in the protocol's JSON-RPC.")
    message = Text()
    data = serializers.JSONField(help_text="Details, the names of wrong fields among them.")  # type: ignore[assignment]  # its name on the wire


class PayloadShape(Shape):
    result = serializers.JSONField(required=False, help_text="Of a response, in the words of its version.")
    error = ErrorShape(required=False)


class EnvelopeShape(Shape):
    protocol = Text()
    version = Text()
    id = Text()
    type = Text(help_text="`response` or `error`.")
    timestamp = Moment()
    inResponseTo = Text()  # noqa: N815 - its name on the wire
    context = ContextShape()  # type: ignore[assignment]  # its name on the wire; the metaclass takes it away
    payload = PayloadShape()

    example = {
        "protocol": "a2a",
        "version": "0.3.0",
        "id": "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b11",
        "type": "response",
        "timestamp": story.NOW,
        "inResponseTo": ASKED,
        "context": {"from": "writer", "to": "deploy-bot", "conversationId": CONTEXT, "messageId": "m-1"},
        "payload": {"result": DONE},
    }


class OpenTasksShape(Shape):
    pending = Whole()
    running = Whole()


class ReportShape(Shape):
    versions = Texts(help_text="Of the protocol.")
    bindings = Texts(help_text="Over which agents are reached; which of them an agent takes stands in its card.")
    methods = Texts(help_text="What the envelope takes.")
    open_tasks = OpenTasksShape(help_text="That the caller sent.")

    example = {
        "versions": ["1.0", "0.3"],
        "bindings": ["JSONRPC", "HTTP+JSON", "GRPC"],
        "methods": ["execute-agent", "status"],
        "open_tasks": {"pending": 1, "running": 2},
    }
