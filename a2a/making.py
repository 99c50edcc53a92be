"""What an agent makes: whole, or in pieces that are kept as they come, so that adding one costs what is new."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Case, F, JSONField, OuterRef, SmallIntegerField, Subquery, When

from a2a import endpoint_room
from a2a.models import Artifact, ArtifactPiece
from common import canonical_json
from common.fastsql import compiled_queries
from common.fastsql.compiled_queries import PreparedQuery

Made = Mapping[str, Any]
_LAST_PIECE = ArtifactPiece.objects.filter(artifact=OuterRef("pk")).order_by("-number")
#: What was made under this name, with where its pieces end, else the last that was made, of which only the place is
#: asked.
_FOUND = PreparedQuery(
    lambda task, name: Artifact.objects.filter(task=task).defer("body")
    .annotate(
        is_it=Case(When(artifact_id=name, then=1), default=0, output_field=SmallIntegerField()),
        kept=Case(When(artifact_id=name, then=F("body")), output_field=JSONField()),
        pieces_kept=Subquery(_LAST_PIECE.values("number")[:1]),
        bytes_kept=Subquery(_LAST_PIECE.values("bytes")[:1]),
    )
    .order_by("-is_it", "-position")[:1],
    task=UUID, name=str,
)  # fmt: skip


def last(task_id: UUID, name: str) -> Artifact | None:
    """What was made under this name, else the last that was made."""
    found: Artifact | None = _FOUND.fetch_first(task=task_id, name=name)
    if found is not None and found.artifact_id == name:
        found.body = found.kept  # type: ignore[attr-defined]  # annotated
    return found


def replace(found: Artifact, made: Made) -> None:
    found.body = made
    if not found._state.adding:
        found.save(update_fields=["body"])
        if found.pieces_kept:  # type: ignore[attr-defined]  # annotated
            ArtifactPiece.objects.filter(artifact=found).delete()


def append(found: Artifact, made: Made, *, most: int | None) -> None:
    """Refused where all of it is more than `most`. What is added need not name the artifact again."""
    head = {**found.body, **made, "parts": []}
    pieces = _pieces(found, made["parts"])
    endpoint_room.require_size(most, len(canonical_json.encode(head)) + pieces[-1].bytes)
    if head != found.body:
        found.body = head
        found.save(update_fields=["body"])
    compiled_queries.insert_rows(*pieces)


def _pieces(found: Artifact, parts: Sequence[Any]) -> list[ArtifactPiece]:
    """What is to be written: this, after what the artifact was begun with where it is the first that is added."""
    number, size = found.pieces_kept or 0, found.bytes_kept or 0  # type: ignore[attr-defined]  # annotated
    added = []
    for each in ([] if number else [found.body["parts"]]) + [parts]:
        number, size = number + 1, size + _bytes(each) + bool(size and each)
        added.append(ArtifactPiece(artifact=found, number=number, parts=each, bytes=size))
    return added


def _bytes(parts: Sequence[Any]) -> int:
    """Without the brackets around them; between two stands a comma."""
    return len(canonical_json.encode(parts)) - 2
