"""Identifiers: time-ordered UUIDs, made by us, before the row is written."""

from uuid import UUID

from uuid_utils import compat


def uuid7() -> UUID:
    """A UUIDv7 as a real `uuid.UUID`."""
    return compat.uuid7()


def parse_uuid(text: str) -> UUID | None:
    """The UUID that `text` spells in its usual form, or None."""
    if len(text) != 36:
        return None
    try:
        return UUID(text)
    except ValueError:
        return None


def short_task_id(task: UUID) -> str:
    """Enough of a task's id for people: its end, which is random."""
    return f"T-{task.hex[-6:]}"
