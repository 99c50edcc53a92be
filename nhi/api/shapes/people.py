"""Oneself and other people."""

from typing import Any

from common.api.fields import Identifier, Moment, Text, Texts, Word
from common.api.shapes import Shape
from nhi.api.shapes import examples
from nhi.models import User


class PersonShape(Shape):
    id = Identifier()
    username = Text()
    roles = Texts()

    example = {"id": examples.MARA, "username": "mara", "roles": ["security-admin"]}

    def to_representation(self, instance: User) -> dict[str, Any]:
        roles = sorted(group.name for group in instance.groups.all())
        return {"id": str(instance.pk), "username": instance.username, "roles": roles}


class ShownToken(Shape):
    expires_at = Moment()
    scope = Text(allow_null=True, help_text="Capability patterns that narrow it; null when it is not narrowed.")
    execution_id = Identifier(allow_null=True)


class MeShape(Shape):
    kind = Word(choices=["agent", "service_account", "user"])
    id = Identifier()
    name = Text()
    state = Text()
    roles = Texts(help_text="An identity's roles that are live; a person's console roles.")
    console_roles = Texts()
    token = ShownToken(allow_null=True, help_text="Null for a person at the console.")

    example = {
        "kind": "agent",
        "id": examples.DEPLOY_BOT,
        "name": "deploy-bot",
        "state": "active",
        "roles": ["reader"],
        "console_roles": [],
        "token": {"expires_at": examples.LATER, "scope": None, "execution_id": None},
    }
