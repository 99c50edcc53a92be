"""Roles, their wildcards' second admin, and who holds them."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation
from common.api.shapes import Reason
from common.errors import NotFound
from nhi.access import roles
from nhi.api.grants import filtered
from nhi.api.shapes import roles as shapes
from nhi.api.shapes.credentials import RevokedShape
from nhi.api.views import ApiView
from nhi.models import Identity, Role, RoleAssignment, RoleCapability

ROWS = Role.objects.prefetch_related("capabilities")


class Roles(ApiView):
    @listing(gives=shapes.RoleShape)
    def get(self, _asked: dict[str, Any]) -> Any:
        """List roles

        An identity sees those it holds."""
        return ROWS.visible_to(self.actor)

    @operation(takes=shapes.NewRole, gives=shapes.RoleShape, status=201, needs="nhi.add_role", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Role:
        """Add a role

        A name and the capability patterns it covers. `*.*` covers nothing until a second admin approves it."""
        return roles.create(
            actor=self.actor,
            name=given["name"],
            patterns=given["capabilities"],
            description=given.get("description", ""),
        )


class OneRole(ApiView):
    role: Role

    def find(self, **path: UUID) -> None:
        self.role = self.visible(ROWS.all(), path["role_id"])

    @operation(gives=shapes.RoleShape)
    def get(self) -> Role:
        """Read a role"""
        return self.role

    @operation(takes=shapes.RoleChange, partial=True, gives=shapes.RoleShape, needs="nhi.change_role")
    def patch(self, given: dict[str, Any]) -> Role:
        """Change a role

        `capabilities` is the whole new list. What stays keeps its approval."""
        return roles.change(
            actor=self.actor,
            role=self.role,
            patterns=given.get("capabilities"),
            description=given.get("description"),
        )


class ApproveCapability(ApiView):
    capability: RoleCapability

    def find(self, **path: UUID) -> None:
        role = self.visible(Role.objects.all(), path["role_id"])
        found = RoleCapability.objects.current().filter(role=role, pk=path["capability_id"]).first()
        if found is None:
            raise NotFound
        self.capability = found

    @operation(takes=Reason, gives=shapes.ApprovedShape, needs="nhi.change_role", refusals=(409,))
    def post(self, given: dict[str, Any]) -> RoleCapability:
        """Approve a wildcard of a role

        The second admin's yes to `*.*`: a person, and not the one who added it. Its id is in the role's `waiting`."""
        return roles.approve_capability(actor=self.actor, capability=self.capability, reason=given["reason"])


class Assignments(ApiView):
    @listing(gives=shapes.AssignmentShape, filters=shapes.AssignmentFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List role assignments

        Newest first. An identity sees its own."""
        return filtered(RoleAssignment.objects.visible_to(self.actor), asked)

    @operation(
        takes=shapes.NewAssignment,
        gives=shapes.AssignmentShape,
        status=201,
        needs="nhi.add_roleassignment",
        refusals=(409,),
    )
    def post(self, given: dict[str, Any]) -> RoleAssignment:
        """Assign a role to an identity

        While it holds the role: 409."""
        role = self.named(Role.objects.all(), "role_id", given.pop("role_id"))
        identity = self.named(Identity.objects.all(), "identity_id", given.pop("identity_id"))
        return roles.assign(actor=self.actor, role=role, identity=identity, **given)


class OfAssignment(ApiView):
    assignment: RoleAssignment

    def find(self, **path: UUID) -> None:
        rows = RoleAssignment.objects.select_related("role", "identity")
        self.assignment = self.visible(rows, path["assignment_id"])


class OneAssignment(OfAssignment):
    @operation(gives=shapes.AssignmentShape)
    def get(self) -> RoleAssignment:
        """Read a role assignment"""
        return self.assignment


class RevokeAssignment(OfAssignment):
    @operation(takes=Reason, gives=RevokedShape, needs="nhi.revoke_roleassignment", refusals=(409,))
    def post(self, given: dict[str, Any]) -> RoleAssignment:
        """Revoke a role assignment

        A request that arrives after this answer is refused, unless a grant or another role covers it."""
        return roles.unassign(actor=self.actor, assignment=self.assignment, reason=given["reason"])
