"""Agent cards: what an agent tells of itself, in the forms that clients of each version read.

Pure: facts in, JSON out. No form holds an empty required field, nor a field that its version does not know: strict
clients refuse both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

V1_0, V0_3 = "1.0", "0.3"
#: What 0.3 writes of itself.
V0_3_FULL = "0.3.0"
JSON_RPC, HTTP_JSON, GRPC = "JSONRPC", "HTTP+JSON", "GRPC"
BEARER, API_KEY = "bearer", "apiKey"
Card = dict[str, Any]


@dataclass(frozen=True)
class Interface:
    """A way in. Clients echo the `tenant` with each request, which tells agents behind one address apart."""

    binding: str
    #: Of gRPC `host:port`, and nothing else.
    url: str
    tenant: str = ""


@dataclass(frozen=True)
class Security:
    """What a caller shows: a bearer token, or an API key in a header of this name."""

    header: str = ""

    @property
    def name(self) -> str:
        return API_KEY if self.header else BEARER


@dataclass(frozen=True)
class Skill:
    id: str
    name: str
    description: str
    tags: Sequence[str]
    examples: Sequence[str] = ()
    input_modes: Sequence[str] = ()
    output_modes: Sequence[str] = ()


@dataclass(frozen=True)
class Facts:
    """Everything that a card is made of."""

    name: str
    description: str
    version: str
    #: The preferred one first, at least one.
    interfaces: Sequence[Interface]
    input_modes: Sequence[str]
    output_modes: Sequence[str]
    skills: Sequence[Skill]
    streaming: bool
    push: bool
    #: Whether who is known is told more.
    extended: bool
    #: None: callers show nothing.
    security: Security | None
    #: Organization and URL.
    provider: tuple[str, str] | None = None
    documentation_url: str = ""
    icon_url: str = ""
    extensions: Sequence[Mapping[str, Any]] = ()
    #: Whether gRPC is encrypted.
    secure: bool = False


def version_of(said: str) -> str:
    """Major and minor of what a client asks for: patches never count."""
    return ".".join(said.strip().split(".")[:2])


def strict_1_0(facts: Facts) -> Card:
    provider = facts.provider
    return _present(
        name=facts.name,
        description=facts.description,
        supportedInterfaces=[
            _present(url=way.url, protocolBinding=way.binding, tenant=way.tenant, protocolVersion=version)
            for version in (V1_0, V0_3)
            for way in facts.interfaces
        ],
        provider=_provider(provider),
        version=facts.version,
        documentationUrl=facts.documentation_url,
        capabilities={**_capabilities(facts), "extendedAgentCard": facts.extended},
        securitySchemes=_schemes_1_0(facts.security),
        # Protocol buffers do not tell an empty list from none, and leave it out.
        securityRequirements=[{"schemes": {facts.security.name: {}}}] if facts.security else [],
        defaultInputModes=list(facts.input_modes),
        defaultOutputModes=list(facts.output_modes),
        skills=[_skill(skill) for skill in facts.skills],
        iconUrl=facts.icon_url,
    )


def strict_0_3(facts: Facts) -> Card:
    ways = [(_url_0_3(way, secure=facts.secure), way.binding) for way in facts.interfaces]
    url, transport = ways[0]
    return _present(
        protocolVersion=V0_3_FULL,
        name=facts.name,
        description=facts.description,
        url=url,
        preferredTransport=transport,
        additionalInterfaces=[{"url": url, "transport": binding} for url, binding in ways],
        provider=_provider(facts.provider),
        version=facts.version,
        documentationUrl=facts.documentation_url,
        capabilities=_capabilities(facts),
        supportsAuthenticatedExtendedCard=facts.extended,
        securitySchemes=_schemes_0_3(facts.security),
        security=[{facts.security.name: []}] if facts.security else [],
        defaultInputModes=list(facts.input_modes),
        defaultOutputModes=list(facts.output_modes),
        skills=[_skill(skill) for skill in facts.skills],
        iconUrl=facts.icon_url,
    )


def merged(facts: Facts) -> Card:
    """For clients of both versions, which pass over what they do not know."""
    new, old = strict_1_0(facts), strict_0_3(facts)
    both = {**old, **new, "capabilities": {**old["capabilities"], **new["capabilities"]}}
    if facts.security is None:
        return both
    name = facts.security.name
    scheme = {**old["securitySchemes"][name], **new["securitySchemes"][name]}
    if "scheme" in scheme:
        # Its case means nothing, but the SDK takes the older form of two, and checks what is signed by that.
        scheme["scheme"] = scheme["httpAuthSecurityScheme"]["scheme"]
    return {**both, "securitySchemes": {name: scheme}}


def of_contract(facts: Facts, *, url: str, described: str) -> Card:
    """The card of the REST contract (seed 002). What nobody has described is null."""
    return {
        "name": facts.name,
        "description": described or None,
        "url": url,
        "version": facts.version,
        "protocol_version": V0_3,
        "capabilities": {"streaming": facts.streaming, "push_notifications": facts.push},
        "authentication": {"schemes": [facts.security.name] if facts.security else []},
        "skills": [{"id": one.id, "name": one.name, "description": one.description} for one in facts.skills],
    }


def _capabilities(facts: Facts) -> Card:
    return {
        "streaming": facts.streaming,
        "pushNotifications": facts.push,
        **({"extensions": [dict(one) for one in facts.extensions]} if facts.extensions else {}),
    }


def _schemes_1_0(security: Security | None) -> Card:
    if security is None:
        return {}
    if security.header:
        return {API_KEY: {"apiKeySecurityScheme": {"location": "header", "name": security.header}}}
    return {BEARER: {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}


def _schemes_0_3(security: Security | None) -> Card:
    """As OpenAPI writes them."""
    if security is None:
        return {}
    if security.header:
        return {API_KEY: {"type": "apiKey", "in": "header", "name": security.header}}
    return {BEARER: {"type": "http", "scheme": "bearer"}}


def _url_0_3(way: Interface, *, secure: bool) -> str:
    """0.3 says nothing of gRPC's; its conformance suite reads `http://host:port` and no other form."""
    if way.binding != GRPC:
        return way.url
    return f"{'https' if secure else 'http'}://{way.url}"


def _provider(provider: tuple[str, str] | None) -> Card:
    return {"organization": provider[0], "url": provider[1]} if provider else {}


def _skill(skill: Skill) -> Card:
    return _present(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        tags=list(skill.tags),
        examples=list(skill.examples),
        inputModes=list(skill.input_modes),
        outputModes=list(skill.output_modes),
    )


def _present(**fields: Any) -> Card:
    """Without what says nothing."""
    return {name: value for name, value in fields.items() if value not in ("", [], {}, None)}
