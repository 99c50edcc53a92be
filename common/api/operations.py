"""One verb of one path, declared beside its code: what it takes, what it gives, who may.

The declaration reads the body, checks the right, writes the answer and describes itself to the schema, so that what is
documented is what runs. The first line of a handler's docstring is its summary, the rest its description.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import cleandoc
from typing import Any, Literal, Protocol

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.api import pagination
from common.api.shapes import Filters, Input, Nothing, Shape

Handler = Callable[..., Any]
MAY_SEND = frozenset({"POST", "PUT", "PATCH"})


class Asked(Protocol):
    """What a view offers its operations."""

    request: Request

    def require(self, operation: "Operation") -> None: ...


@dataclass(frozen=True)
class Media:
    """An answer that is no JSON: its type, and what it holds; of a stream of events, what each of them does."""

    type: str
    example: Any
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True)
class Operation:
    name: str
    summary: str
    description: str
    gives: type[Shape]
    takes: type[Input] | None = None
    partial: bool = False
    filters: type[Filters] | None = None
    paged: Literal["", "offset", "cursor"] = ""
    #: What a list's rows stand under, where that is not the path's last segment.
    key: str = ""
    status: int = 200
    #: The right that the caller needs before anything is read; empty where the verb alone can tell.
    needs: str = ""
    #: Refusals beyond those that every path can give.
    refusals: tuple[int, ...] = field(default=())
    #: Whether a caller who only reads may use it although it is not a GET.
    reads: bool = False
    #: Other answers that are no refusals, by status.
    also: tuple[tuple[int, type[Shape]], ...] = ()
    #: What it gives instead of JSON.
    media: tuple[Media, ...] = ()
    #: Whether a session of the console needs a fresh proof of who the person is.
    proof: bool = False


def operation(
    *,
    gives: type[Shape],
    takes: type[Input] | None = None,
    filters: type[Filters] | None = None,
    partial: bool = False,
    status: int = 200,
    needs: str = "",
    refusals: tuple[int, ...] = (),
    reads: bool = False,
    proof: bool = False,
    name: str = "",
) -> Callable[[Handler], Handler]:
    """A verb that takes a body, or what the query says, or nothing, and gives one object.

    `filters` is for DELETE: a body there means nothing to HTTP, and may get lost on its way."""

    def mark(method: Handler) -> Handler:
        summary, description = split_docstring(method)
        declared = Operation(
            name, summary, description, gives, takes, partial, filters, "", "", status, needs, refusals, reads,
            proof=proof,
        )  # fmt: skip

        def answer(view: Any, request: Request) -> Response:
            arguments = () if takes is None else (read(takes, request.data, partial=partial),)
            if filters is not None:
                arguments = (read(filters, request.query_params.dict()),)
            if takes is None and request.method in MAY_SEND:
                # A key that is not known is refused, also by who knows none.
                read(Nothing, request.data)
            return Response(gives(method(view, *arguments)).data, status=status)

        return _handler(method, declared, answer)

    return mark


def listing(
    *,
    gives: type[Shape],
    filters: type[Filters] = Filters,
    needs: str = "",
    paged: Literal["offset", "cursor"] = "offset",
    time_column: str = "at",
    key: str = "",
    name: str = "",
) -> Callable[[Handler], Handler]:
    """A GET whose method returns a queryset, or `Counted`; it is given what the query's filters said. A cursor goes by
    `time_column`.

    The rows stand under `key`, or under the path's last segment."""
    paginate = pagination.by_offset if paged == "offset" else partial(pagination.by_cursor, column=time_column)

    def mark(method: Handler) -> Handler:
        summary, description = split_docstring(method)
        declared = Operation(
            name, summary, description, gives, filters=filters, paged=paged, key=key, needs=needs, refusals=(400,)
        )  # fmt: skip

        def answer(view: Any, request: Request) -> Response:
            query = request.query_params.dict()
            rows = method(view, read(filters, query))
            return Response(paginate(rows, query, gives, key or pagination.key_of(request.path)))

        return _handler(method, declared, answer)

    return mark


def reading(
    *, gives: type[Shape], filters: type[Filters], media: tuple[Media, ...] = (), refusals: tuple[int, ...] = ()
) -> Callable[[Handler], Handler]:
    """A GET of one thing of which the query says more; it is given that, and gives an object or a whole response."""

    def mark(method: Handler) -> Handler:
        summary, description = split_docstring(method)
        declared = Operation(
            "", summary, description, gives, filters=filters, refusals=(400, *refusals), media=media
        )  # fmt: skip

        def answer(view: Any, request: Request) -> HttpResponseBase:
            result = method(view, read(filters, request.query_params.dict()))
            return result if isinstance(result, HttpResponseBase) else Response(gives(result).data)

        return _handler(method, declared, answer)

    return mark


def answering(
    *,
    takes: type[Input],
    gives: type[Shape],
    also: Mapping[int, type[Shape]],
    refusals: tuple[int, ...],
    name: str = "",
) -> Callable[[Handler], Handler]:
    """A verb that reads its body itself, since who may know of it comes first, and gives a whole response."""

    def mark(method: Handler) -> Handler:
        summary, description = split_docstring(method)
        declared = Operation(
            name, summary, description, gives, takes, refusals=refusals, also=tuple(also.items())
        )  # fmt: skip
        return _handler(method, declared, lambda view, _request: method(view))

    return mark


def of_handler(handler: Any) -> Operation | None:
    """The declaration of a view's method, if it has one."""
    declared = getattr(handler, "operation", None)
    return declared if isinstance(declared, Operation) else None


def read(serializer_class: type[serializers.Serializer[Any]], data: Any, *, partial: bool = False) -> dict[str, Any]:
    serializer = serializer_class(data=data, partial=partial)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def split_docstring(method: Handler) -> tuple[str, str]:
    summary, _, description = cleandoc(method.__doc__ or "").partition("\n")
    return summary.rstrip("."), description.strip()


def _handler(method: Handler, declared: Operation, answer: Callable[[Any, Request], HttpResponseBase]) -> Handler:
    @wraps(method)
    def handler(view: Asked, request: Request, **_path: Any) -> HttpResponseBase:
        view.require(declared)
        return answer(view, request)

    handler.operation = declared  # type: ignore[attr-defined]  # read back by `of_handler`
    return handler
