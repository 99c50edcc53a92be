"""The current request or task: its id and its source address."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID

from common.ids import uuid7


@dataclass(frozen=True)
class RequestContext:
    """The id of a request or task, and the address of its client; the address is empty if there is no client."""

    request_id: UUID
    source: str = ""


_current: ContextVar[RequestContext | None] = ContextVar("gatehouse_context", default=None)


def current() -> RequestContext:
    """The context of this request or task; outside both, a new context that stays for the rest of the thread."""
    context = _current.get()
    if context is None:
        context = RequestContext(uuid7())
        _current.set(context)
    return context


def current_or_none() -> RequestContext | None:
    """The context of this request or task; None outside both."""
    return _current.get()


@contextmanager
def bind_context(context: RequestContext) -> Iterator[RequestContext]:
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
