"""Error classes, each with a stable code. They know nothing of HTTP: each interface maps codes to its own statuses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field of the input."""

    field: str
    message: str


class GatehouseError(Exception):
    """Base class of all errors. `code` is stable, `message` is one sentence for a person."""

    code: ClassVar[str]

    def __init__(
        self, message: str, *, fields: Sequence[FieldError] = (), details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fields = tuple(fields)
        self.details = details or {}


class InvalidInput(GatehouseError):
    """The input is not valid. `fields` names each field with the reason and what to do."""

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
    """The object does not exist or is not visible to the caller; both give the same answer."""

    code = "not_found"

    def __init__(self, message: str = "There is nothing here that you can see.") -> None:
        super().__init__(message)


class NotAllowed(GatehouseError):
    """The actor is authenticated but does not have the permission."""

    code = "not_allowed"


class Conflict(GatehouseError):
    """The current state does not allow the operation."""

    code = "conflict"


class Duplicate(Conflict):
    """An object with the same unique values, such as its name, already exists."""

    code = "duplicate"


class InvalidTransition(Conflict):
    """The object's state does not allow the move, or another request moved the object meanwhile."""

    code = "invalid_transition"


class RateLimited(GatehouseError):
    """Too many requests. A retry may succeed after `retry_after` whole seconds."""

    code = "limited"

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message, details={"retry_after": max(1, retry_after)})
        self.retry_after = max(1, retry_after)


class RecordUnavailable(GatehouseError):
    """The audit record cannot be written, so nothing was done."""

    code = "record_unavailable"

    def __init__(self) -> None:
        super().__init__("The audit record cannot be written, so nothing was done.")
