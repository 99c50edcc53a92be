"""Who acts in a request of the console, worked out once."""

from django.http import HttpRequest

from nhi import actors
from nhi.actors import Actor


def actor_of(request: HttpRequest) -> Actor:
    known: Actor | None = getattr(request, "_actor", None)
    if known is None:
        assert request.user.is_authenticated  # the site has turned everyone else away
        known = request._actor = actors.person(request.user)  # type: ignore[attr-defined]  # kept on the request for the next to ask
    return known


def may(request: HttpRequest, right: str) -> bool:
    return actor_of(request).may(right)


def may_change(request: HttpRequest, right: str) -> bool:
    """Whether a control for this is drawn: an auditor gets none."""
    actor = actor_of(request)
    return actor.may(right) and not actor.only_reads
