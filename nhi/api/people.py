"""Oneself and other people."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import Group

from common.api.operations import listing, operation
from nhi.api.authentication import Caller
from nhi.api.shapes.people import MeShape, PersonShape
from nhi.api.views import ApiView
from nhi.models import RoleAssignment, User


class Me(ApiView):
    #: Nothing is seen but oneself, and clients poll it.
    opens = False

    @operation(gives=MeShape)
    def get(self) -> dict[str, Any]:
        """Say who calls

        Which identity or person the token or the session belongs to, what they hold, and when the token ends."""
        caller = self.caller
        about = _person(caller) if caller.actor.is_person else _identity(caller)
        return {**about, "token": _token(caller)}


class People(ApiView):
    @listing(gives=PersonShape, needs="nhi.view_user")
    def get(self, _asked: dict[str, Any]) -> Any:
        """List people

        Everybody who may own identities, and the console roles they hold. For admins."""
        return User.objects.visible_to(self.actor).prefetch_related("groups").order_by("username", "id")


def _person(caller: Caller) -> dict[str, Any]:
    held = sorted(Group.objects.filter(user=caller.actor.id).values_list("name", flat=True))
    about = {"kind": "user", "id": caller.actor.id, "name": caller.actor.name, "state": "active"}
    return {**about, "roles": held, "console_roles": held}


def _identity(caller: Caller) -> dict[str, Any]:
    identity = caller.loaded.identity if caller.loaded else None
    assert identity is not None  # no identity comes without a token
    held = RoleAssignment.objects.live().filter(identity=identity)
    about = {"kind": identity.kind, "id": identity.pk, "name": identity.name, "state": identity.state}
    return {
        **about,
        "roles": sorted(held.values_list("role__name", flat=True)),
        "console_roles": [] if _is_narrowed(caller) else sorted(identity.console_roles.values_list("name", flat=True)),
    }


def _is_narrowed(caller: Caller) -> bool:
    return caller.loaded is not None and caller.loaded.is_narrowed


def _token(caller: Caller) -> dict[str, Any] | None:
    if caller.loaded is None or caller.loaded.credential is None:
        return None
    if short := caller.loaded.token:
        ends = datetime.fromtimestamp(short.expires / 1000, UTC)
        return {"expires_at": ends, "scope": short.scope or None, "execution_id": short.execution_id}
    return {"expires_at": caller.loaded.credential.expires_at, "scope": None, "execution_id": None}
