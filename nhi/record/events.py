"""The one writer of audit events."""

import hashlib
from typing import Any
from uuid import UUID

from django.db import DatabaseError, models

from common import canonical, context
from common.errors import RecordUnavailable
from common.redaction import redact, redact_text
from nhi.actors import Actor
from nhi.models import AuditEvent
from nhi.record import seal
from nhi.record.catalogue import EVENTS

#: Control characters, and halves of surrogate pairs, which no database stores.
MARKS = {mark: f"\\u{mark:04x}" for mark in (*range(32), *range(127, 160), *range(0xD800, 0xE000))}
NOT_STORED = {mark: f"\\u{mark:04x}" for mark in (0, *range(0xD800, 0xE000))}

#: A grant's limits with the largest schema fit.
LARGEST = 96 * 1024


def write(
    event: str,
    *,
    actor: Actor,
    subject: models.Model | None = None,
    subject_kind: str = "",
    subject_id: UUID | None = None,
    subject_name: str = "",
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    details: dict[str, Any] | None = None,
    reason: str = "",
) -> AuditEvent:
    """Append one event in the caller's transaction; when that fails, so does what it records."""
    assert event in EVENTS, event
    now = context.current()
    holder_id, target_id = getattr(subject, "sides", (None, None))
    row = AuditEvent(
        event=event,
        actor_kind=actor.kind,
        actor_id=actor.id,
        actor_name=_line(actor.name, 192),
        subject_kind=subject_kind or (subject._meta.model_name or "" if subject else ""),
        subject_id=subject.pk if subject else subject_id,
        subject_name=_line(str(subject) if subject else subject_name, 400),
        holder_id=holder_id,
        target_id=target_id,
        before=_bounded(before) if before else None,
        after=_bounded(after) if after else None,
        details=_bounded(details or {}),
        reason=_line(reason, 500),
        request_id=now.request_id,
        source=now.source,
    )
    seal.seal(row)
    try:
        row.save()
    except DatabaseError as error:
        raise RecordUnavailable from error
    return row


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    """A row stays for ever, so nobody fills it: past the cap, what was said is kept as a size and a hash."""
    kept: dict[str, Any] = _storable(redact(value))
    text = canonical.encode(kept)
    if len(text) <= LARGEST:
        return kept
    return {"omitted_bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def _storable(value: Any) -> Any:
    """PostgreSQL's JSON holds no NUL, and no encoding holds half of a surrogate pair: both are spelled out."""
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return value.translate(NOT_STORED) if isinstance(value, str) else value


def _line(text: str, cap: int) -> str:
    """One line, without control characters and secrets: nothing in a name can forge a row."""
    return redact_text(text.translate(MARKS))[:cap]
