"""The OpenAPI description, made from what each operation declares: summary, examples, and every refusal it can give."""

from typing import Any

from django.conf import settings
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import build_media_type_object
from drf_spectacular.utils import OpenApiExample, OpenApiResponse

from common.api import pagination
from common.api.operations import Operation, of_handler
from common.api.shapes import Input, Problem, Shape

REQUEST_ID = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3a0e"
#: What each status is about, and an example: error code, reason, message.
REFUSALS: dict[int, tuple[str, str, str, str]] = {
    400: ("Something in the request cannot be taken.", "InvalidParameters", "invalid", "reason: Say something here."),
    401: (
        "No credential, or one that is refused.",
        "Unauthorized",
        "credential_expired",
        "This credential has ended.",
    ),
    403: ("The caller may not do this.", "Unauthorized", "not_allowed", "You may not add identities."),
    404: ("Unknown, or not visible to the caller.", "NotFound", "not_found", "There is nothing here that you can see."),
    409: ("The world is not in the state that this needs.", "Conflict", "duplicate", "There is already an agent ci."),
    413: ("More than 1 MiB was sent.", "TooLarge", "too_large", "More than 1048576 bytes were sent; that is the most."),
    429: (
        "A budget is used up; `Retry-After` says for how long.",
        "RateLimitExceeded",
        "quota_exceeded",
        "deploy-bot has used its 100 calls an hour.",
    ),
    500: ("Our mistake.", "InternalError", "unexpected", "Something went wrong here."),
    502: ("The server failed, or its tool did.", "ExecutionFailed", "upstream", "todo: no answer within 10 s."),
    503: (
        "The database or the record is away: nothing was done.",
        "InternalError",
        "record_unavailable",
        "The audit record cannot be written, so nothing was done.",
    ),
    504: ("It took too long.", "Timeout", "timeout", "No answer within 30 s."),
}
#: Areas with a tag for each of their paths.
GROUPS = {"mcp": "MCP", "supervisor": "Supervisor", "a2a": "A2A"}


class GatehouseSchema(AutoSchema):
    """Reads the operation of the view's handler, which every handler declares."""

    @property
    def operation(self) -> Operation:
        declared = of_handler(getattr(self.view, self.method.lower(), None))
        assert declared is not None, f"{self.method} {self.path} declares no operation"
        return declared

    def get_summary(self) -> str:
        return self.operation.summary

    def get_description(self) -> str:  # type: ignore[override]  # as in the class above, which differs from the framework's
        needs = self.operation.needs
        right = f"Needs the right `{needs}`." if needs else ""
        return "\n\n".join(filter(None, [" ".join(self.operation.description.split()), right]))

    def get_tags(self) -> list[str]:
        if not self.path.startswith("/api/nhi/"):
            return ["OAuth 2.0"]
        first, *more = [word.replace("_", " ") for word in self._words()]
        return [f"{GROUPS[first]} {more[0]}" if first in GROUPS else first.capitalize()]

    def get_operation_id(self) -> str:
        if self.operation.name:
            return self.operation.name
        if self.method == "POST" and self.operation.status != 201:
            return "_".join(self._words())
        reads = "list" if self.operation.paged else "read"
        verb = {"GET": reads, "POST": "create", "PUT": "set", "PATCH": "change", "DELETE": "remove"}[self.method]
        return "_".join([*self._words(), verb])

    def get_request_serializer(self) -> Any:
        takes = self.operation.takes
        # A body in which no key may stand is none.
        return takes(partial=self.operation.partial) if takes and takes().fields else None

    def get_override_parameters(self) -> list[Any]:
        page_parameters: dict[str, list[Any]] = {"offset": [pagination.Page], "cursor": [pagination.CursorPage], "": []}
        shapes = (self.operation.filters, *page_parameters[self.operation.paged])
        return [shape for shape in shapes if shape is not None and shape().fields]

    def get_filter_backends(self) -> list[Any]:
        return []

    def get_response_serializers(self) -> Any:
        declared = self.operation
        answer = self._page(declared) if declared.paged else self._one(declared)
        others = {status: self._other(shape) for status, shape in declared.also}
        refused = {status: self._refusal(status) for status in self._refusals()}
        if declared.media:
            return {**self._media(declared), **refused}
        return {declared.status: answer, **others, **refused}

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        return str(super().get_serializer_name(serializer, direction)).removesuffix("Shape")

    def _one(self, declared: Operation) -> OpenApiResponse:
        example = OpenApiExample("Answer", value=declared.gives.example)
        return OpenApiResponse(declared.gives, description=declared.summary, examples=[example])

    def _media(self, declared: Operation) -> dict[tuple[int, str], OpenApiResponse]:
        answers = {}
        for media in declared.media:
            example = OpenApiExample("Answer", value=media.example, media_type=media.type)
            answers[declared.status, media.type] = OpenApiResponse(
                dict(media.schema), description=declared.summary, examples=[example]
            )
        return answers

    def _other(self, shape: type[Shape]) -> OpenApiResponse:
        description = " ".join((shape.__doc__ or "").split())
        return OpenApiResponse(shape, description=description, examples=[OpenApiExample("Answer", value=shape.example)])

    def _page(self, declared: Operation) -> OpenApiResponse:
        """The rows under the path's own word, and where the page stands."""
        key = declared.key or pagination.key_of(self.path)
        item = self.resolve_serializer(declared.gives, "response").ref
        integer = {"type": "integer"}
        rest: dict[str, Any] = {"total": integer, "limit": integer, "offset": integer}
        example_position: dict[str, Any] = {"total": 1, "limit": 20, "offset": 0}
        if declared.paged == "cursor":
            rest, example_position = {"next_cursor": {"type": ["string", "null"]}}, {"next_cursor": None}
        properties = {key: {"type": "array", "items": item}, **rest}
        schema = {"type": "object", "properties": properties, "required": [*properties]}
        example = OpenApiExample("Page", value={key: [declared.gives.example], **example_position})
        return OpenApiResponse(schema, description=declared.summary, examples=[example])

    def _refusals(self) -> list[int]:
        declared, statuses = self.operation, {500, 503}
        if self.view.permission_classes:
            statuses.add(401)
            statuses |= {403} if self.method != "GET" or declared.needs else set()
        if "{" in self.path:
            statuses.add(404)
        if declared.takes is not None:
            statuses |= {400, 413}
        if getattr(self.view, "refused", None):
            statuses.add(401)
        return sorted(statuses | set(declared.refusals))

    def _refusal(self, status: int) -> OpenApiResponse:
        description, error_code, reason, message = REFUSALS[status]
        own: type[Shape] | None = getattr(self.view, "refused", None) if status < 500 else None
        problem = {
            "error_code": error_code,
            "message": message,
            "details": {"reason": reason, "fields": []},
            "request_id": REQUEST_ID,
        }
        example = OpenApiExample("Refusal", value=own.example if own else problem)
        return OpenApiResponse(own or Problem, description=description, examples=[example])

    def _get_request_for_media_type(self, serializer: Any, direction: str = "request") -> Any:
        schema, _required = super()._get_request_for_media_type(serializer, direction)  # type: ignore[no-untyped-call]  # the framework's
        # A body is needed as soon as one of its keys is.
        return schema, any(field.required for field in serializer.fields.values()) if serializer else False

    def _get_request_body(self, direction: str = "request") -> Any:
        body = super()._get_request_body(direction)  # type: ignore[no-untyped-call]  # the framework's
        takes = self.operation.takes
        if body and takes is not None and takes.example:
            for name, media in body["content"].items():
                body["content"][name] = build_media_type_object(media["schema"], {"Request": {"value": takes.example}})
        return body

    def _map_basic_serializer(self, serializer: Any, direction: str) -> Any:
        schema = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]  # the framework's
        if isinstance(serializer, Input) and serializer.strict:
            schema["additionalProperties"] = False
        return schema

    def _words(self) -> list[str]:
        """The path's fixed segments, without what all paths begin with."""
        own = self.path.removeprefix("/api/nhi").removeprefix("/.well-known")
        return [part.replace("-", "_") for part in own.split("/") if part and not part.startswith("{")]


def whole(result: dict[str, Any], **_rest: Any) -> dict[str, Any]:
    """What holds for the description as a whole: where it is served, and each refusal written down once."""
    result["servers"] = [{"url": "/"}]
    result["info"]["version"] = settings.VERSION
    shared = result["components"].setdefault("responses", {})
    for responses in (verb["responses"] for verbs in result["paths"].values() for verb in verbs.values()):
        for status in [status for status in responses if _is_problem(responses[status])]:
            name = f"Problem{status}"
            shared[name] = responses[status]
            responses[status] = {"$ref": f"#/components/responses/{name}"}
    return result


def _is_problem(response: dict[str, Any]) -> bool:
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    return bool(schema.get("$ref") == "#/components/schemas/Problem")
