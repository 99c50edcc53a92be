"""0.3 in protocol buffers, by way of their JSON."""

from collections.abc import Mapping
from typing import Any

from a2a.wire.codecs import Body, Codec, Codecs
from a2a.wire.protobuf import Rpc, rpcs
from a2a.wire.v03 import a2a_v03_pb2 as messages
from a2a.wire.v03 import protojson

NAMES = {
    "TaskSubscription": "SubscribeToTask",
    "ListTaskPushNotificationConfig": "ListTaskPushNotificationConfigs",
    "GetAgentCard": "GetExtendedAgentCard",
}
#: What JSON calls by a `type`, protocol buffers call by the name of a field.
SCHEMES = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}


def write_card(card: Body) -> dict[str, Any]:
    """A card in 0.3's JSON is like that of its protocol buffers but for what it says of security."""
    said = dict(card)
    if "securitySchemes" in card:
        said["securitySchemes"] = {name: write_scheme(scheme) for name, scheme in card["securitySchemes"].items()}
    if "security" in card:
        said["security"] = [write_security(one) for one in card["security"]]
    if "skills" in card:
        said["skills"] = [_write_skill(skill) for skill in card["skills"]]
    return said


def write_scheme(scheme: Body) -> Mapping[str, Any]:
    if "type" not in scheme:
        return scheme
    said = {name: value for name, value in scheme.items() if name not in {"type", "in"}}
    return {SCHEMES[scheme["type"]]: {**said, "location": scheme["in"]} if "in" in scheme else said}


def write_security(required: Mapping[str, list[str]]) -> dict[str, Any]:
    return {"schemes": {name: {"list": scopes} for name, scopes in required.items()}}


def _write_skill(skill: Body) -> dict[str, Any]:
    security = [write_security(one) for one in skill.get("security", [])]
    return {**skill, "security": security} if security else dict(skill)


OPERATIONS: Codecs = {
    **protojson.OPERATIONS,
    "GetExtendedAgentCard": Codec(protojson.OPERATIONS["GetExtendedAgentCard"].read, write_card),
}
RPCS: list[Rpc] = rpcs(
    messages.DESCRIPTOR.services_by_name["A2AService"], version="0.3", codecs=OPERATIONS, operations=NAMES
)
