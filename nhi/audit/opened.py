"""Records the pages that auditors open: they can read everything, so each page view is recorded."""

from django.http import HttpRequest

from nhi.actors import Actor
from nhi.audit import events

MAX_QUERY_LENGTH = 2000


def write_page_opened(request: HttpRequest, *, actor: Actor, title: str) -> None:
    events.write(
        "page.opened",
        actor=actor,
        subject_kind="page",
        subject_name=title,
        details={"path": request.path, "query": request.META.get("QUERY_STRING", "")[:MAX_QUERY_LENGTH]},
    )
