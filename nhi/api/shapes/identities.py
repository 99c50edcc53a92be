"""Identities as they are read, registered, changed and moved."""

from typing import Any

from rest_framework import serializers

from common.api.fields import Flag, Identifier, Moment, Text, Texts, Whole, Word
from common.api.shapes import Filters, Input, Reason, Shape
from nhi.api.shapes import examples
from nhi.choices import Kind, State, StopCause
from nhi.identities.lifecycle import StopResult


class OwnerShape(Shape):
    id = Identifier()
    username = Text()


class IdentityShape(Shape):
    id = Identifier()
    kind = Word(choices=Kind.choices)
    name = Text()
    state = Word(choices=State.choices)
    state_since = Moment()
    state_reason = Text()
    state_cause = Text(help_text="Why it was suspended, as a code of `suspend`; empty where nobody stated it.")
    state_by = Text()
    owner = OwnerShape()
    backup_owner = OwnerShape(allow_null=True)
    description = Text()
    purpose = Text()
    environment = Text()
    team = Text()
    tags = Texts()
    expires_at = Moment(allow_null=True)
    inactivity_days = Whole()
    last_activity_at = Moment(allow_null=True)
    discoverable = Flag()
    capability = Text(allow_null=True, help_text="What patterns of roles are matched against; tools have one.")
    created_by = Text(source="created_by_name")
    created_at = Moment()
    updated_at = Moment()

    example = {
        "id": examples.DEPLOY_BOT,
        "kind": "agent",
        "name": "deploy-bot",
        "state": "active",
        "state_since": examples.NOW,
        "state_reason": "",
        "state_cause": "",
        "state_by": "mara",
        "owner": {"id": examples.MARA, "username": "mara"},
        "backup_owner": None,
        "description": "",
        "purpose": "Ships the site",
        "environment": "prod",
        "team": "Platform",
        "tags": ["prod"],
        "expires_at": None,
        "inactivity_days": 90,
        "last_activity_at": None,
        "discoverable": False,
        "capability": None,
        "created_by": "mara",
        "created_at": examples.NOW,
        "updated_at": examples.NOW,
    }


class StopCounts(Shape):
    tokens = Whole()
    calls = Whole()
    tasks = Whole()
    schedules = Whole()
    executions = Whole()


STOPPED = {"tokens": 1, "calls": 0, "tasks": 0, "schedules": 0, "executions": 0}


class StoppedShape(Shape):
    id = Identifier(source="identity.id")
    state = Word(choices=State.choices, source="identity.state")
    stopped = StopCounts(help_text="How many of each ended.")
    pending = Texts(help_text="What could not be ended at once; the sweeper does it.")

    example = {"id": examples.DEPLOY_BOT, "state": "suspended", "stopped": STOPPED, "pending": []}


class ArchivedShape(IdentityShape):
    """The identity, and what ended with it."""

    stopped = StopCounts()
    pending = Texts()

    example = {**IdentityShape.example, "state": "archived", "stopped": STOPPED, "pending": []}

    def to_representation(self, instance: StopResult) -> dict[str, Any]:
        ended = {"stopped": instance.stopped, "pending": instance.pending}
        return {**IdentityShape(instance.identity).data, **ended}


class Description(Input):
    """What describes an identity, and may be changed later."""

    description = Text(required=False)
    purpose = Text(required=False)
    environment = Text(required=False)
    team = Text(required=False)
    tags = Texts(required=False, help_text="At most 20.")
    owner_id = Identifier(required=False)
    backup_owner_id = Identifier(required=False, allow_null=True, help_text="Another person than the owner.")
    expires_at = Moment(required=False, allow_null=True, help_text="In the future; null for no end.")
    inactivity_days = Whole(required=False, help_text="1 to 3650.")
    discoverable = Flag(required=False)
    capability = Text(required=False, help_text="Tools only.")

    example = {"purpose": "Ships the site and opens issues", "tags": ["prod", "release"]}


class NewIdentity(Description):
    kind = Word(choices=Kind.choices)
    name = Text(help_text="`[a-z0-9][a-z0-9._-]{0,62}`; a tool's is `<server>__<tool>`.")
    owner_id = Identifier(required=False, help_text="Yourself, when a person leaves it out.")
    inactivity_days = Whole(required=False, default=90, help_text="1 to 3650.")
    activate = Flag(required=False, default=True)

    example = {
        "kind": "agent",
        "name": "deploy-bot",
        "purpose": "Ships the site",
        "environment": "prod",
        "team": "Platform",
        "tags": ["prod"],
    }


class IdentityFilters(Filters):
    kind = Word(choices=Kind.choices, required=False)
    state = Word(choices=State.choices, required=False)
    name = serializers.CharField(required=False, help_text="The whole name.")
    environment = serializers.CharField(required=False)
    team = serializers.CharField(required=False)
    owner_id = Identifier(required=False)


class Activation(Reason):
    """Why it may act again, and what becomes of the credentials that it kept."""

    revoke_credentials = Flag(
        required=False, default=False, help_text="Revoke its live credentials first, in the same commit: after a leak."
    )

    example = {"reason": "The leak is closed", "revoke_credentials": True}


class Suspension(Reason):
    """Why it must stop, in words and, where it is one of these, as a code."""

    cause = Word(
        choices=StopCause.choices,
        required=False,
        help_text="After `leak`, the console offers to revoke its credentials when somebody reactivates it.",
    )

    example = {"reason": "Token found in a public log", "cause": "leak"}


class Copy(Input):
    to_id = Identifier(help_text="The identity that gets what this one holds.")

    example = {"to_id": examples.WRITER}


class Via(Shape):
    kind = Word(choices=["grant", "role"])
    id = Identifier()
    name = Text()
    expires_at = Moment(allow_null=True)


class ReachedTool(Shape):
    tool_id = Identifier(source="id")
    name = Text()
    capability = Text()
    via = Via(many=True)


class ReachedAgent(Shape):
    agent_id = Identifier(source="id")
    name = Text()
    via = Via(many=True)


class AccessShape(Shape):
    tools = ReachedTool(many=True)
    agents = ReachedAgent(many=True)
    total = Whole()

    example = {
        "tools": [
            {
                "tool_id": examples.CREATE_ISSUE,
                "name": "github__create_issue",
                "capability": "github.create_issue",
                "via": [{"kind": "grant", "id": examples.GRANT, "name": "by mara", "expires_at": None}],
            }
        ],
        "agents": [],
        "total": 1,
    }
