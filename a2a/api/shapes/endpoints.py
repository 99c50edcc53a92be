"""Endpoints in seed 001's words: the way in, what is shown there, how much is taken, what is offered."""

from typing import Any

from rest_framework import serializers

from a2a import endpoints
from a2a.choices import Authentication, Transport
from a2a.endpoints import Settings
from a2a.wire import methods
from common.api.fields import Flag, Identifier, Moment, Text, Texts, Whole
from common.api.fields import Word as OneOf
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples as story
from nhi.models import Identity

LARGEST = 10_485_760
SOME = ["SendMessage", "GetTask", "CancelTask"]


class Transports(serializers.ListField):
    child = OneOf(choices=Transport.choices)


class Methods(serializers.ListField):
    child = OneOf(choices=[(name, name) for name in methods.ALL])


class AuthenticationShape(Shape):
    type = OneOf(source="authentication", choices=Authentication.choices)
    header_name = Text(help_text="Where the caller's token stands.")
    required = Flag(help_text="False for a development server that asks for nothing.")  # type: ignore[assignment]  # its name on the wire; the metaclass takes it away
    open_as_id = Identifier(allow_null=True, help_text="In whose name callers ask who show nothing.")


class RateLimitingShape(Shape):
    tasks_per_minute = Whole(allow_null=True)
    tasks_per_hour = Whole(allow_null=True)


class CapabilitiesShape(Shape):
    supported_methods = Methods(source="methods")
    max_input_size = Whole(help_text="Bytes of a request.")
    max_output_size = Whole(help_text="Bytes of one artifact, as JSON.")
    streaming_support = Flag(source="streaming")
    concurrent_execution = Flag(help_text="Whether it has more than one open task at a time.")
    max_concurrent_tasks = Whole(allow_null=True, help_text="Open tasks; null for no limit.")
    supported_content_types = Texts(source="content_types", help_text="Of a message's parts; empty for any.")


class EndpointShape(Shape):
    identity_id = Identifier()
    name = Text()
    base_path = Text(help_text="Follows from the name.")
    transport_protocols = Transports(source="transports")
    authentication = AuthenticationShape(source="*")
    rate_limiting = RateLimitingShape(source="*")
    capabilities = CapabilitiesShape(source="*")
    updated_at = Moment(allow_null=True, help_text="Null while nobody has changed it.")

    def to_representation(self, instance: Identity | Settings) -> dict[str, Any]:
        if isinstance(instance, Identity):
            instance = endpoints.read(instance, getattr(instance, "endpoint", None))
        return super().to_representation(instance)

    example = {
        "identity_id": story.WRITER,
        "name": "writer",
        "base_path": "/agents/writer",
        "transport_protocols": ["json_rpc", "http_json", "grpc"],
        "authentication": {
            "type": "bearer_token", "header_name": "Authorization", "required": True, "open_as_id": None,
        },
        "rate_limiting": {"tasks_per_minute": 60, "tasks_per_hour": None},
        "capabilities": {
            "supported_methods": SOME,
            "max_input_size": LARGEST,
            "max_output_size": LARGEST,
            "streaming_support": True,
            "concurrent_execution": True,
            "max_concurrent_tasks": None,
            "supported_content_types": [],
        },
        "updated_at": None,
    }  # fmt: skip


class EndpointFilters(Filters):
    name = Text(required=False)


class AuthenticationChange(Input):
    type = OneOf(source="authentication", choices=Authentication.choices, required=False)
    header_name = Text(source="api_key_header", required=False, help_text="Of an API key.")
    open_as_id = Identifier(required=False, allow_null=True, help_text="For `none`, which needs DEBUG=1.")

    example = {"type": "api_key", "header_name": "X-API-Key"}


class RateLimitingChange(Input):
    tasks_per_minute = Whole(required=False, allow_null=True, help_text="Null for no limit.")
    tasks_per_hour = Whole(required=False, allow_null=True, help_text="Null for no limit.")

    example = {"tasks_per_minute": 60}


class CapabilitiesChange(Input):
    supported_methods = Methods(required=False)
    max_input_size = Whole(required=False)
    max_output_size = Whole(required=False)
    streaming_support = Flag(source="streaming", required=False)
    max_concurrent_tasks = Whole(required=False, allow_null=True)
    supported_content_types = Texts(source="content_types", required=False)

    example = {"streaming_support": False}


class EndpointChange(Input):
    transport_protocols = Transports(source="transports", required=False)
    authentication = AuthenticationChange(required=False)
    rate_limiting = RateLimitingChange(required=False)
    capabilities = CapabilitiesChange(required=False)
    reason = Text(required=False, help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"transport_protocols": ["json_rpc"], "rate_limiting": {"tasks_per_minute": 60}}
