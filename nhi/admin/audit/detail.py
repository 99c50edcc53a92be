"""One audit event: what was before and after, in which request, and whether the row still says what was written."""

from dataclasses import dataclass
from typing import Any

from common.console import badges, times
from common.console.pages import Crumb, link
from common.errors import NotFound
from nhi.audit import row_macs
from nhi.console import event_sentences
from nhi.console.base import ActorPage
from nhi.models import AuditEvent

SAME_REQUEST = 20


@dataclass(frozen=True)
class Change:
    """One field of the subject; the parts that the event does not have are None."""

    name: str
    before: Any
    after: Any

    @property
    def differs(self) -> bool:
        return bool(self.before != self.after)


class Event(ActorPage):
    template = "nhi/audit/event.html"

    def context(self) -> dict[str, Any]:
        row = self._row()
        sentence = event_sentences.event_sentence(row)
        return {
            "title": f"{sentence.text}, {times.exact(row.at)}",
            "event": row,
            "sentence": sentence,
            "actor_badge": badges.find("nhi.ActorKind", row.actor_kind),
            "changes": changes(row),
            "details": row.details,
            "verdict": row_macs.verify_row(row).value,
            "same_request": event_sentences.event_sentences(self._same_request(row)),
            "crumb": Crumb("Audit events", link("nhi_auditevent_changelist")),
        }

    def _row(self) -> AuditEvent:
        row = AuditEvent.objects.visible_to(self.actor).filter(pk=self.kwargs["pk"]).first()
        if row is None:
            raise NotFound
        return row

    def _same_request(self, row: AuditEvent) -> list[AuditEvent]:
        if row.request_id is None:
            return []
        same = AuditEvent.objects.visible_to(self.actor).filter(request_id=row.request_id).exclude(pk=row.pk)
        return list(same.order_by("at", "id")[:SAME_REQUEST])


def changes(row: AuditEvent) -> list[Change]:
    """Field by field, what differs first."""
    before, after = row.before or {}, row.after or {}
    found = [Change(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]
    return sorted(found, key=lambda change: not change.differs)
