"""Errors are named for the fact, carry a stable code and know nothing of HTTP; each edge has one table for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class FieldError:
    field: str
    message: str


class GatehouseError(Exception):
    """The root. `code` is stable, `message` is one sentence for a person."""

    code: ClassVar[str]

    def __init__(
        self, message: str, *, fields: Sequence[FieldError] = (), details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fields = tuple(fields)
        self.details = details or {}


class InvalidInput(GatehouseError):
    """What was sent cannot be taken: which field, why, what to do."""

    code = "invalid"

    @classmethod
    def for_field(cls, name: str, message: str) -> "InvalidInput":
        return cls(message, fields=[FieldError(name, message)])


class PayloadTooLarge(GatehouseError):
    """More than `limit` bytes were sent."""

    code = "too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"More than {limit} bytes were sent; that is the most.", details={"limit": limit})


class NotFound(GatehouseError):
    """Unknown, or not visible to who asks: the same answer for both."""

    code = "not_found"

    def __init__(self, said: str = "There is nothing here that you can see.") -> None:
        super().__init__(said)


class NotAllowed(GatehouseError):
    """The actor is known and may not do this."""

    code = "not_allowed"


class Conflict(GatehouseError):
    """The world is not in the state that this needs."""

    code = "conflict"


class Duplicate(Conflict):
    code = "duplicate"


class InvalidTransition(Conflict):
    code = "invalid_transition"


class RateLimited(GatehouseError):
    """Too many, too fast: `retry_after` whole seconds from now it may work."""

    code = "limited"

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message, details={"retry_after": max(1, retry_after)})
        self.retry_after = max(1, retry_after)


class RecordUnavailable(GatehouseError):
    """The audit record cannot be written, so nothing was done."""

    code = "record_unavailable"

    def __init__(self) -> None:
        super().__init__("The audit record cannot be written, so nothing was done.")
