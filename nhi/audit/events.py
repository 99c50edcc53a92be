"""The only writer of audit events, page views of auditors included."""

import hashlib
from typing import Any
from uuid import UUID

from django.db import DatabaseError, models
from django.http import HttpRequest

from common import canonical_json, context
from common.errors import RecordUnavailable
from common.redaction import redact
from nhi.actors import Actor
from nhi.audit import row_macs, sanitization
from nhi.audit.event_catalogue import EVENTS
from nhi.models import AuditEvent

#: Large enough for a grant's limits with the largest allowed schema.
MAX_DETAILS_BYTES = 96 * 1024


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
    """Append one event in the caller's transaction, so that the recorded change fails if this write fails."""
    assert event in EVENTS, event
    request_context = context.current()
    holder_id, target_id = getattr(subject, "sides", (None, None))
    row = AuditEvent(
        event=event,
        actor_kind=actor.kind,
        actor_id=actor.id,
        actor_name=sanitization.single_line(actor.name, 192),
        subject_kind=subject_kind or (subject._meta.model_name or "" if subject else ""),
        subject_id=subject.pk if subject else subject_id,
        subject_name=sanitization.single_line(str(subject) if subject else subject_name, 400),
        holder_id=holder_id,
        target_id=target_id,
        before=_limit_size(before) if before else None,
        after=_limit_size(after) if after else None,
        details=_limit_size(details or {}),
        reason=sanitization.single_line(reason, 500),
        request_id=request_context.request_id,
        source=request_context.source,
    )
    row_macs.seal_row(row)
    try:
        row.save()
    except DatabaseError as error:
        raise RecordUnavailable from error
    return row


def _limit_size(value: dict[str, Any]) -> dict[str, Any]:
    """Redact a value, and replace one that is too large by its size and hash: rows are kept forever."""
    storable: dict[str, Any] = sanitization.make_storable(redact(value))
    text = canonical_json.encode(storable)
    if len(text) <= MAX_DETAILS_BYTES:
        return storable
    return {"omitted_bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


MAX_QUERY_LENGTH = 2000


def write_page_opened(request: HttpRequest, *, actor: Actor, title: str) -> None:
    write(
        "page.opened",
        actor=actor,
        subject_kind="page",
        subject_name=title,
        details={"path": request.path, "query": request.META.get("QUERY_STRING", "")[:MAX_QUERY_LENGTH]},
    )
