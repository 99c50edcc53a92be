"""The three kinds of grant."""

from common.api.fields import Flag, Identifier, Identifiers, Mapping, Moment, Text, Texts, Whole, Word
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples
from nhi.choices import GrantState, Level, PermissionType


class GrantShape(Shape):
    """What every grant says besides whom it connects."""

    id = Identifier()
    state = Word(choices=GrantState.choices)
    expires_at = Moment(allow_null=True)
    reason = Text()
    granted_by = Text(source="granted_by_name")
    granted_by_id = Identifier(allow_null=True)
    created_at = Moment()
    revoked_at = Moment(allow_null=True)
    revoked_by = Text(source="revoked_by_name")
    revoke_reason = Text()

    example = {
        "id": examples.GRANT,
        "state": "live",
        "expires_at": None,
        "reason": "Opens release issues",
        "granted_by": "mara",
        "granted_by_id": examples.MARA,
        "created_at": examples.NOW,
        "revoked_at": None,
        "revoked_by": "",
        "revoke_reason": "",
    }


class ToolGrantShape(GrantShape):
    agent_id = Identifier()
    tool_id = Identifier()
    allowed_parameters = Mapping(allow_null=True)
    max_calls_per_hour = Whole(allow_null=True)
    requires_approval = Flag()

    example = {
        **GrantShape.example,
        "agent_id": examples.DEPLOY_BOT,
        "tool_id": examples.CREATE_ISSUE,
        "allowed_parameters": {"type": "object", "properties": {"repo": {"enum": ["acme/site"]}}},
        "max_calls_per_hour": None,
        "requires_approval": False,
    }


class NhiGrantShape(GrantShape):
    source_id = Identifier()
    target_id = Identifier()
    permission_type = Word(choices=PermissionType.choices)
    allowed_actions = Texts(allow_null=True, help_text="Globs; null for all, empty for none.")
    max_calls_per_hour = Whole(allow_null=True)

    example = {
        **GrantShape.example,
        "source_id": examples.DEPLOY_BOT,
        "target_id": examples.WRITER,
        "permission_type": "call",
        "allowed_actions": ["release.*"],
        "max_calls_per_hour": None,
    }


class UserGrantShape(GrantShape):
    nhi_id = Identifier()
    user_id = Identifier()
    level = Word(choices=Level.choices)

    example = {**GrantShape.example, "nhi_id": examples.DEPLOY_BOT, "user_id": examples.OLGA, "level": "use"}


class NewGrant(Input):
    reason = Text(help_text="Why, in at most 500 characters.")
    expires_at = Moment(required=False, allow_null=True, help_text="In the future; null for no end.")


class NewToolGrant(NewGrant):
    agent_id = Identifier()
    tool_id = Identifier()
    allowed_parameters = Mapping(required=False, allow_null=True, help_text="A JSON Schema that arguments must meet.")
    max_calls_per_hour = Whole(required=False, allow_null=True, help_text="At least 1.")
    requires_approval = Flag(required=False, default=False)

    example = {
        "agent_id": examples.DEPLOY_BOT,
        "tool_id": examples.CREATE_ISSUE,
        "reason": "Opens release issues",
        "expires_at": examples.LATER,
    }


class BulkToolGrants(NewGrant):
    """Exactly one of `tool_ids`, `server` and `pattern` says which tools."""

    agent_id = Identifier()
    tool_ids = Identifiers(required=False, help_text="At most 100.")
    server = Text(required=False)
    pattern = Text(required=False, help_text="A capability pattern, like `github.*`.")

    example = {"agent_id": examples.DEPLOY_BOT, "pattern": "github.*", "reason": "Takes over the releases"}


class NewNhiGrant(NewGrant):
    source_id = Identifier()
    target_id = Identifier()
    permission_type = Word(choices=PermissionType.choices)
    allowed_actions = Texts(required=False, allow_null=True, help_text="Globs; null for all, empty for none.")
    max_calls_per_hour = Whole(required=False, allow_null=True, help_text="At least 1.")

    example = {
        "source_id": examples.DEPLOY_BOT,
        "target_id": examples.WRITER,
        "permission_type": "call",
        "reason": "Asks for release notes",
    }


class NewUserGrant(NewGrant):
    nhi_id = Identifier()
    user_id = Identifier()
    level = Word(choices=Level.choices)

    example = {
        "nhi_id": examples.DEPLOY_BOT,
        "user_id": examples.OLGA,
        "level": "use",
        "reason": "Plans the week with it",
    }


class GrantFilters(Filters):
    state = Word(choices=GrantState.choices, required=False)


class ToolGrantFilters(GrantFilters):
    agent_id = Identifier(required=False)
    tool_id = Identifier(required=False)


class NhiGrantFilters(GrantFilters):
    source_id = Identifier(required=False)
    target_id = Identifier(required=False)
    permission_type = Word(choices=PermissionType.choices, required=False)


class UserGrantFilters(GrantFilters):
    nhi_id = Identifier(required=False)
    user_id = Identifier(required=False)
    level = Word(choices=Level.choices, required=False)
