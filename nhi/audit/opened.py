"""What an auditor opened. They see everything, so what they looked at is on record, wherever they looked."""

from django.http import HttpRequest

from nhi.actors import Actor
from nhi.audit import events

LONGEST_QUERY = 2000


def write(request: HttpRequest, *, actor: Actor, title: str) -> None:
    events.write(
        "page.opened",
        actor=actor,
        subject_kind="page",
        subject_name=title,
        details={"path": request.path, "query": request.META.get("QUERY_STRING", "")[:LONGEST_QUERY]},
    )
