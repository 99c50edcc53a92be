"""Tasks in the protocol's words, as their callers are told of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Case, F, JSONField, Q, QuerySet, When

from a2a import parts
from a2a.choices import TaskState
from a2a.models import Artifact, Task, TaskMessage
from common.fastsql.compiled_queries import PreparedQuery


def in_pieces(rows: "QuerySet[Artifact]") -> "QuerySet[Artifact, Any]":
    """A row of each artifact, or of each of its pieces, of which the first brings along what is said of all of them."""
    is_first = Q(pieces__number=None) | Q(pieces__number=1)
    said = Case(When(is_first, then=F("body")), output_field=JSONField())
    in_order = rows.annotate(said=said).order_by("task_id", "position", "pieces__number")
    return in_order.values_list("task_id", "pk", "said", "pieces__parts")


_MADE = PreparedQuery(lambda task: in_pieces(Artifact.objects.filter(task=task)), task=UUID)
_SAID = PreparedQuery(
    lambda task: TaskMessage.objects.filter(task=task).order_by("position").values_list("body", flat=True), task=UUID
)  # fmt: skip


def task(row: Task, *, history: int | None = None, artifacts: bool = True) -> dict[str, Any]:
    """A task with the last `history` of its messages, or all of them."""
    bodies = made(row.pk) if artifacts else None
    said = _SAID.fetch_all(task=row.pk) if history != 0 else []
    return whole(row, history=_last(said, history), artifacts=bodies)


def new(row: Task, *, history: int | None = None) -> dict[str, Any]:
    """The same of one that was just written: nothing has to be read for it."""
    said = [] if row.first_message is None else [dict(row.first_message)]
    return whole(row, history=_last(said, history), artifacts=[])


def made(task_id: UUID) -> list[dict[str, Any]]:
    """What it made, in order."""
    return _whole(_MADE.fetch_all(task=task_id)).get(task_id, [])


def tasks(rows: Sequence[Task], *, history: int | None = None, artifacts: bool = True) -> list[dict[str, Any]]:
    """The same for several, with one query each for what they made and for what was said."""
    keys = [row.pk for row in rows]
    bodies = _made_in(keys) if artifacts else {}
    said = (
        _by_task(TaskMessage.objects.filter(task_id__in=keys).order_by("task_id", "position")) if history != 0 else {}
    )
    return [
        whole(
            row, history=_last(said.get(row.pk, []), history), artifacts=bodies.get(row.pk, []) if artifacts else None
        )
        for row in rows
    ]


def whole(
    row: Task, *, history: Sequence[Mapping[str, Any]] = (), artifacts: Sequence[Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    told = parts.task(
        row.pk,
        context_id=row.context_id,
        status=parts.status(TaskState(row.state), parts.moment(row.state_at), row.status_message),
        history=history,
        metadata=_metadata(row),
    )
    return told if artifacts is None else {**told, "artifacts": list(artifacts)}


def _metadata(row: Task) -> dict[str, Any]:
    """What the caller said, and what 1.0 has no field for."""
    own = {"task_type": row.task_type, "error_code": row.error_code, "error_message": row.error_message}
    said = {name: value for name, value in row.metadata.items() if name not in own}
    return {**said, **{name: value for name, value in own.items() if value}}


def _made_in(task_ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    return _whole(in_pieces(Artifact.objects.filter(task_id__in=task_ids)))


def _whole(rows: Iterable[tuple[UUID, UUID, Any, Any]]) -> dict[UUID, list[dict[str, Any]]]:
    """What each task made."""
    found: dict[UUID, dict[UUID, dict[str, Any]]] = {}
    for task_id, key, said, more in rows:
        made = found.setdefault(task_id, {}).setdefault(key, said)
        made["parts"].extend(more or [])
    return {task_id: list(each.values()) for task_id, each in found.items()}


def _by_task(rows: Any) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for key, body in rows.values_list("task_id", "body"):
        found.setdefault(key, []).append(body)
    return found


def _last(said: list[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    return said if most is None else said[len(said) - most :] if most < len(said) else said
