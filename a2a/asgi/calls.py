"""What a binding reads of a request, and how it wraps what is said back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from a2a.asgi.heads import JSON
from a2a.asgi.versions import Dialect
from a2a.wire.faults import Fault


@dataclass(frozen=True)
class Wrapping:
    """Around results, stream items and faults of one request."""

    result: Callable[[Any], Any]
    error: Callable[[Fault], Any]
    status: Callable[[Fault], int]
    media: str = JSON


@dataclass(frozen=True)
class Call:
    operation: str
    version: str
    params: dict[str, Any]
    dialect: Dialect
    wrapping: Wrapping
    transport: str


class Unread(Exception):
    """The request is no call of an operation."""

    def __init__(self, fault: Fault, wrapping: Wrapping, *, allow: frozenset[str] = frozenset()) -> None:
        super().__init__(fault.message)
        self.fault, self.wrapping, self.allow = fault, wrapping, allow
