"""What a strict client would object to in a card."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from a2a.wire import cards, jws
from a2a.wire.cards import Card

Severity = Literal["error", "warning"]
LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: The fields of 1.0's AgentCard, whether each is required, and what is inside of it.
SKILL = {
    "id": True, "name": True, "description": True, "tags": True, "examples": False, "inputModes": False,
    "outputModes": False, "securityRequirements": False,
}  # fmt: skip
INTERFACE = {"url": True, "protocolBinding": True, "tenant": False, "protocolVersion": True}
CARD = {
    "name": True, "description": True, "supportedInterfaces": True, "provider": False, "version": True,
    "documentationUrl": False, "capabilities": True, "securitySchemes": False, "securityRequirements": False,
    "defaultInputModes": True, "defaultOutputModes": True, "skills": True, "signatures": False, "iconUrl": False,
}  # fmt: skip
INSIDE = {"skills": SKILL, "supportedInterfaces": INTERFACE, "provider": {"organization": True, "url": True}}


@dataclass(frozen=True)
class Objection:
    severity: Severity
    #: The field of the card.
    field: str
    said: str


def of(card: Card, *, served: Card) -> list[Objection]:
    """`card` as strict 1.0, `served` as those get it who ask for no version."""
    return [*_structure(card, CARD), *_places(card), *_text(served), *_open(card)]


def _structure(card: Card, known: dict[str, bool], at: str = "") -> Iterator[Objection]:
    for name, required in known.items():
        if required and card.get(name) in (None, "", [], {}):
            yield Objection("error", at + name, "It is required and empty.")
    for name in sorted(set(card) - set(known)):
        yield Objection("error", at + name, "Version 1.0 does not know this field.")
    for name, inside in INSIDE.items() if known is CARD else ():
        value = card.get(name, [])
        for number, one in enumerate(value if isinstance(value, list) else [value]):
            yield from _structure(one, inside, f"{name}[{number}]." if isinstance(value, list) else f"{name}.")


def _places(card: Card) -> Iterator[Objection]:
    web = [way["url"] for way in card.get("supportedInterfaces", []) if way["protocolBinding"] != cards.GRPC]
    for url in dict.fromkeys(web):
        parts = urlsplit(url)
        if parts.hostname in LOOPBACK:
            yield Objection(
                "warning", "supportedInterfaces", f"{url} leads nowhere from another machine: set PUBLIC_URL."
            )
        elif parts.scheme != "https":
            yield Objection("warning", "supportedInterfaces", f"{url} is not encrypted: clients may refuse it.")


def _text(served: Card) -> Iterator[Objection]:
    if not jws.is_signable(served):
        beyond = [name for name, value in served.items() if not jws.is_signable({"": value})]
        said = "It holds characters beyond ASCII, which clients sign in different ways: this card goes out unsigned."
        yield from (Objection("warning", name, said) for name in beyond)


def _open(card: Card) -> Iterator[Objection]:
    if not card.get("securitySchemes"):
        yield Objection("warning", "securitySchemes", "Callers show nothing: anybody may send it tasks.")
