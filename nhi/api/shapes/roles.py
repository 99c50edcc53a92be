"""Roles, the wildcards that wait for a second admin, and who holds what."""

from typing import Any

from common.api.fields import Identifier, Moment, Text, Texts, Word
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples
from nhi.api.shapes.grants import GrantShape
from nhi.choices import GrantState
from nhi.models import Role


class WaitingShape(Shape):
    """A pattern that covers nothing until a second admin approves it."""

    id = Identifier()
    pattern = Text()
    added_by = Text(source="added_by_name")
    added_at = Moment()


class RoleShape(Shape):
    id = Identifier()
    name = Text()
    description = Text()
    capabilities = Texts(help_text="Every pattern, those that wait included.")
    waiting = WaitingShape(many=True, help_text="The patterns that wait for a second admin.")
    created_by = Text(source="created_by_name")
    created_at = Moment()

    example = {
        "id": examples.ROLE,
        "name": "reader",
        "description": "Looks, changes nothing",
        "capabilities": ["github.commits.*", "jira.search"],
        "waiting": [],
        "created_by": "mara",
        "created_at": examples.NOW,
    }

    def to_representation(self, instance: Role) -> dict[str, Any]:
        current = [one for one in instance.capabilities.all() if one.removed_at is None]
        return {
            "id": str(instance.pk),
            "name": instance.name,
            "description": instance.description,
            "capabilities": sorted(one.pattern for one in current),
            "waiting": [WaitingShape(one).data for one in current if one.approved_at is None],
            "created_by": instance.created_by_name,
            "created_at": Moment().to_representation(instance.created_at),
        }


class NewRole(Input):
    name = Text(help_text="`[a-z0-9][a-z0-9._-]{0,62}`.")
    capabilities = Texts(help_text="Patterns like `github.read`, `github.commits.*`, `github.*`; `*.*` has to wait.")
    description = Text(required=False)

    example = {"name": "reader", "capabilities": ["github.commits.*", "jira.search"]}


class RoleChange(Input):
    """The name stays."""

    capabilities = Texts(required=False, help_text="The whole new list.")
    description = Text(required=False)

    example = {"capabilities": ["github.commits.*"]}


class ApprovedShape(Shape):
    id = Identifier()
    role_id = Identifier()
    pattern = Text()
    added_by = Text(source="added_by_name")
    approved_by = Text(source="approved_by_name")
    approved_at = Moment()

    example = {
        "id": examples.CAPABILITY,
        "role_id": examples.ROLE,
        "pattern": "*.*",
        "added_by": "mara",
        "approved_by": "admin",
        "approved_at": examples.NOW,
    }


class AssignmentShape(GrantShape):
    role_id = Identifier()
    identity_id = Identifier()

    example = {
        **GrantShape.example,
        "id": examples.ASSIGNMENT,
        "role_id": examples.ROLE,
        "identity_id": examples.DEPLOY_BOT,
    }


class NewAssignment(Input):
    role_id = Identifier()
    identity_id = Identifier()
    expires_at = Moment(required=False, allow_null=True, help_text="In the future; null for no end.")
    reason = Text(required=False)

    example = {"role_id": examples.ROLE, "identity_id": examples.DEPLOY_BOT}


class AssignmentFilters(Filters):
    role_id = Identifier(required=False)
    identity_id = Identifier(required=False)
    state = Word(choices=GrantState.choices, required=False)
