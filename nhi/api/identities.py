"""Identities: registering, reading, changing, moving, and all of their access at once."""

from typing import Any, cast
from uuid import UUID

from common.api.operations import listing, operation
from common.api.shapes import Reason
from common.errors import InvalidInput
from nhi.access import bulk, effective_access
from nhi.access.bulk import ItemResult
from nhi.api.shapes.identities import (
    AccessShape,
    Activation,
    ArchivedShape,
    Copy,
    Description,
    IdentityFilters,
    IdentityShape,
    NewIdentity,
    StoppedShape,
    Suspension,
)
from nhi.api.shapes.items import CopyResults
from nhi.api.views import ApiView
from nhi.identities import identities, lifecycle
from nhi.identities.lifecycle import StopResult
from nhi.models import Identity, User

ROWS = Identity.objects.select_related("owner", "backup_owner")


class OfIdentity(ApiView):
    """A path below one identity."""

    identity: Identity

    def find(self, **path: UUID) -> None:
        self.identity = self.visible(ROWS.all(), path["identity_id"])

    def with_people(self, given: dict[str, Any]) -> dict[str, Any]:
        return with_people(self, given)


def with_people(view: ApiView, given: dict[str, Any]) -> dict[str, Any]:
    """The people whom the body names by id, in place of their ids."""
    described = dict(given)
    for role in ("owner", "backup_owner"):
        if f"{role}_id" in described:
            pk = described.pop(f"{role}_id")
            described[role] = None if pk is None else view.named(User.objects.all(), f"{role}_id", pk)
    return described


class Identities(ApiView):
    @listing(gives=IdentityShape, filters=IdentityFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List identities

        Those you may see: all of them for console roles; else yourself, what you own and what you were granted."""
        return ROWS.visible_to(self.actor).filter(**asked)

    @operation(takes=NewIdentity, gives=IdentityShape, status=201, needs="nhi.add_identity", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Identity:
        """Register an identity

        An agent, a service account or a tool. The name is unique for its kind. It is active at once unless
        `activate` is false."""
        described = with_people(self, given)
        if "owner" not in described:
            described["owner"] = self._caller_as_owner()
        return identities.create(actor=self.actor, **described)

    def _caller_as_owner(self) -> User:
        if not self.actor.is_person:
            raise InvalidInput.for_field("owner_id", "Name a person: an identity owns no identity.")
        return cast("User", User.objects.get(pk=self.actor.id))


class OneIdentity(OfIdentity):
    @operation(gives=IdentityShape)
    def get(self) -> Identity:
        """Read an identity"""
        return self.identity

    @operation(takes=Description, partial=True, gives=IdentityShape)
    def patch(self, given: dict[str, Any]) -> Identity:
        """Change what describes an identity

        Its kind, its name and who made it stay; its state is moved by the verbs below it. `expires_at: null` takes the
        end away."""
        return identities.change(actor=self.actor, identity=self.identity, **self.with_people(given))


class Activate(OfIdentity):
    @operation(takes=Activation, gives=IdentityShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Identity:
        """Activate an identity

        From inactive or suspended. Credentials that it kept work again, unless `revoke_credentials` ends them first."""
        return lifecycle.activate(actor=self.actor, identity=self.identity, **given)


class Deactivate(OfIdentity):
    @operation(takes=Reason, gives=IdentityShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Identity:
        """Deactivate an identity

        From active. It may neither call nor be called until it is activated again."""
        return lifecycle.deactivate(actor=self.actor, identity=self.identity, reason=given["reason"])


class Deprecate(OfIdentity):
    @operation(takes=Reason, gives=IdentityShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Identity:
        """Deprecate an identity

        From active, inactive or suspended; there is no way back, only on to archived."""
        return lifecycle.deprecate(actor=self.actor, identity=self.identity, reason=given["reason"])


class Archive(OfIdentity):
    @operation(takes=Reason, gives=ArchivedShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> StopResult:
        """Archive an identity

        From deprecated, and final: its credentials, its grants of all three kinds and its roles are revoked."""
        return lifecycle.archive(actor=self.actor, identity=self.identity, reason=given["reason"])


class Suspend(OfIdentity):
    @operation(takes=Suspension, gives=StoppedShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> StopResult:
        """Suspend an identity

        The kill switch: when the answer is here, its tokens are refused and calls by it and to it are denied.
        Credentials are kept and work again after activate. What could not be stopped at once is named in `pending`."""
        return lifecycle.suspend(actor=self.actor, identity=self.identity, **given)


class EffectiveAccess(OfIdentity):
    @operation(gives=AccessShape)
    def get(self) -> effective_access.AccessOverview:
        """Read what an identity can reach

        Every usable tool and agent that a live grant or role leads to, and through what. Grants that only name an end
        in the past are not among them."""
        return effective_access.load(self.identity)


class CopyAccess(OfIdentity):
    @operation(takes=Copy, gives=CopyResults, needs="nhi.add_toolpermission")
    def post(self, given: dict[str, Any]) -> dict[str, list[ItemResult]]:
        """Copy the access of an identity to another

        Its live grants with their limits and ends, and its live roles. Each item has its own result."""
        target = self.named(ROWS.all(), "to_id", given["to_id"])
        return {"results": bulk.copy_access(actor=self.actor, source=self.identity, target=target)}
