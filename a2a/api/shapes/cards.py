"""Cards as people keep them, as the REST contract shows them, and every form of one."""

from typing import Any

from rest_framework import serializers

from a2a import cards
from a2a.cards import Described
from a2a.choices import CardForm
from common.api.fields import Flag, Identifier, Mapping, Moment, Text, Texts
from common.api.fields import Word as OneOf
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples as story
from nhi.models import Identity

URL = "https://gatehouse.example.com/agents/writer"
SKILL = {
    "id": "summarise",
    "name": "Summarise",
    "description": "Makes a page of a document.",
    "tags": ["text"],
    "examples": ["Summarise the minutes"],
    "input_modes": [],
    "output_modes": [],
    "public": True,
}
FORM = {"name": "writer", "description": "Writes.", "version": "1.0.0", "supportedInterfaces": [], "skills": []}


class OrNull(Text):
    """Null where nothing is said."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_null": True, **options})


class ContractSkillShape(Shape):
    id = Text()
    name = Text()
    description = OrNull()


class ContractCapabilitiesShape(Shape):
    streaming = Flag()
    push_notifications = Flag()


class ContractSchemesShape(Shape):
    schemes = Texts()


class ContractCardShape(Shape):
    name = Text()
    description = OrNull()
    url = Text()
    version = Text()
    protocol_version = Text()
    capabilities = ContractCapabilitiesShape()
    authentication = ContractSchemesShape()
    skills = ContractSkillShape(many=True)

    example = {
        "name": "writer",
        "description": "Writes.",
        "url": URL,
        "version": "1.0.0",
        "protocol_version": "0.3",
        "capabilities": {"streaming": True, "push_notifications": True},
        "authentication": {"schemes": ["bearer"]},
        "skills": [{"id": "summarise", "name": "Summarise", "description": "Makes a page of a document."}],
    }


class SkillShape(Shape):
    id = Text(source="skill_id")
    name = Text()
    description = Text()
    tags = Texts()
    examples = Texts()
    input_modes = Texts(help_text="Empty: those of the card.")
    output_modes = Texts(help_text="Empty: those of the card.")
    public = Flag(help_text="Whether strangers are told of it; else callers whose grant covers it.")

    example = SKILL


class ProviderShape(Shape):
    organization = Text(source="card.provider_organization")
    url = Text(source="card.provider_url")


class CardItem(Shape):
    identity_id = Identifier(source="identity.id")
    name = Text(source="identity.name")
    url = Text(help_text="Where the agent is reached; its card stands below, at /.well-known/agent-card.json.")
    discoverable = Flag(source="identity.discoverable", help_text="Whether anyone can read the card.")
    version = Text(source="card.version")
    description = Text(source="card.description", help_text="Empty: the identity's own.")
    provider = ProviderShape(source="*", help_text="Empty where none is named.")
    documentation_url = Text(source="card.documentation_url")
    icon_url = Text(source="card.icon_url")
    default_input_modes = Texts(source="card.default_input_modes", help_text="Empty: what the endpoint takes.")
    default_output_modes = Texts(source="card.default_output_modes", help_text="Empty: what the endpoint takes.")
    form = OneOf(source="card.form", choices=CardForm.choices, help_text="Served to who asks for no version.")
    updated_at = Moment(source="modified")

    def to_representation(self, instance: Identity | Described) -> dict[str, Any]:
        told = cards.loaded(instance) if isinstance(instance, Identity) else instance
        return super().to_representation(told)

    example = {
        "identity_id": story.WRITER,
        "name": "writer",
        "url": URL,
        "discoverable": False,
        "version": "1.0.0",
        "description": "Writes.",
        "provider": {"organization": "Acme", "url": "https://acme.example.com"},
        "documentation_url": "",
        "icon_url": "",
        "default_input_modes": [],
        "default_output_modes": [],
        "form": "merged",
        "updated_at": story.NOW,
    }


class CardShape(CardItem):
    skills = SkillShape(many=True, help_text="In their order. Without any the card names one, made of the agent.")

    example = {**CardItem.example, "skills": [SKILL]}


class CardFilters(Filters):
    discoverable = serializers.BooleanField(required=False, allow_null=True, default=None)
    name = Text(required=False)


class NewSkill(Input):
    id = Text(source="skill_id", help_text="What callers name it by, often a task's type.")
    name = Text()
    description = Text(required=False)
    tags = Texts(required=False)
    examples = Texts(required=False)
    input_modes = Texts(required=False)
    output_modes = Texts(required=False)
    public = Flag(required=False)

    example = SKILL


class NewProvider(Input):
    organization = Text(source="provider_organization")
    url = Text(source="provider_url")

    example = {"organization": "Acme", "url": "https://acme.example.com"}


class CardChange(Input):
    version = Text(required=False)
    description = Text(required=False)
    provider = NewProvider(required=False, allow_null=True, help_text="Null takes it away.")
    documentation_url = Text(required=False)
    icon_url = Text(required=False)
    default_input_modes = Texts(required=False)
    default_output_modes = Texts(required=False)
    form = OneOf(choices=CardForm.choices, required=False)
    skills = NewSkill(
        many=True, required=False, help_text="All of them, in their order: they stand instead of those before."
    )
    reason = Text(required=False, help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"description": "Writes.", "skills": [SKILL]}


class ObjectionShape(Shape):
    severity = OneOf(choices=["error", "warning"])
    field = Text()
    message = Text(source="said")


class PreviewShape(Shape):
    merged = Mapping(help_text="For clients of both versions.")
    v1_0 = Mapping(source="strict_1_0", help_text="What `A2A-Version: 1.0` is answered with.")
    v0_3 = Mapping(source="strict_0_3", help_text="What `A2A-Version: 0.3` is answered with.")
    objections = ObjectionShape(many=True, help_text="What a strict client would say to it.")

    example = {
        "merged": FORM,
        "v1_0": FORM,
        "v0_3": {"name": "writer", "protocolVersion": "0.3.0", "url": URL},
        "objections": [
            {
                "severity": "warning",
                "field": "supportedInterfaces",
                "message": "It is not encrypted: clients may refuse it.",
            }
        ],
    }
