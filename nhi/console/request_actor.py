"""Finds the actor of a console request and checks the actor's rights."""

from django.http import HttpRequest

from nhi import actors
from nhi.actors import Actor


def actor_of(request: HttpRequest) -> Actor:
    actor: Actor | None = getattr(request, "_actor", None)
    if actor is None:
        assert request.user.is_authenticated  # the admin site requires sign-in
        actor = request._actor = actors.person(request.user)  # type: ignore[attr-defined]  # cached on the request
    return actor


def may(request: HttpRequest, right: str) -> bool:
    return actor_of(request).may(right)


def may_change(request: HttpRequest, right: str) -> bool:
    """Return whether to show a control that needs this right. Auditors get no controls."""
    actor = actor_of(request)
    return actor.may(right) and not actor.only_reads
