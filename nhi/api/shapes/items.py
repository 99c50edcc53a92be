"""Results of verbs that work on many things: each item has its own."""

from typing import Any

from common.api.errors import answer_to
from common.api.fields import Identifier, Text, Word
from common.api.shapes import Shape
from nhi.access.bulk import ItemResult
from nhi.api.shapes import examples

RESULTS = ["created", "exists", "refused"]


class ToolItem(Shape):
    tool_id = Identifier(source="target_id")
    name = Text()
    result = Word(choices=RESULTS)
    id = Identifier(required=False, help_text="The grant's, when it was created.")
    error_code = Text(required=False, help_text="What the single verb would have answered, otherwise.")
    reason = Text(required=False)
    message = Text(required=False)

    def to_representation(self, instance: ItemResult) -> dict[str, Any]:
        return {"tool_id": str(instance.target_id), "name": instance.name, **said(instance)}


class CopiedItem(Shape):
    kind = Word(choices=["tool", "nhi", "role"])
    name = Text()
    target_id = Identifier()
    result = Word(choices=RESULTS)
    id = Identifier(required=False)
    error_code = Text(required=False)
    reason = Text(required=False)
    message = Text(required=False)

    def to_representation(self, instance: ItemResult) -> dict[str, Any]:
        named = {"kind": instance.kind, "name": instance.name, "target_id": str(instance.target_id)}
        return {**named, **said(instance)}


class ToolResults(Shape):
    results = ToolItem(many=True)

    example = {
        "results": [
            {
                "tool_id": examples.CREATE_ISSUE,
                "name": "github__create_issue",
                "result": "created",
                "id": examples.GRANT,
            },
            {
                "tool_id": examples.DEPLOY_BOT,
                "name": examples.DEPLOY_BOT,
                "result": "refused",
                "error_code": "NotFound",
                "reason": "not_found",
                "message": "There is no such tool that you can see.",
            },
        ]
    }


class CopyResults(Shape):
    results = CopiedItem(many=True)

    example = {
        "results": [
            {
                "kind": "tool",
                "name": "github__create_issue",
                "target_id": examples.CREATE_ISSUE,
                "result": "created",
                "id": examples.GRANT,
            }
        ]
    }


def said(item: ItemResult) -> dict[str, Any]:
    """What became of the item: the new row's id, or why there is none."""
    if item.error_code is None:
        return {"result": item.result, "id": str(item.id)}
    why = {"error_code": answer_to(item.error_code).error_code, "reason": item.error_code, "message": item.message}
    return {"result": item.result, **why}
