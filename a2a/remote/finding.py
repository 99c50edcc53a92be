"""From an agent's place to one of its interfaces, by way of its card, which is read again now and then."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from yarl import URL

from a2a.remote import cards
from a2a.remote.client import Client
from a2a.remote.target import Interface, Target
from a2a.remote.troubles import Code, Trouble

PLACES = ("/.well-known/agent-card.json", "/.well-known/agent.json")
NO_CARD = frozenset({Code.REFUSED, Code.INVALID_ANSWER})
FRESH_SECONDS = 300.0
MOST_KEPT = 256


@dataclass(frozen=True)
class Card:
    place: str
    says: Mapping[str, Any]


class Known:
    """What was found lately in this process, by what was looked for. A credential is a part of that."""

    def __init__(self) -> None:
        self._kept: dict[Target, tuple[float, Interface]] = {}

    def get(self, target: Target) -> Interface | None:
        found = self._kept.get(target)
        return found[1] if found and time.monotonic() - found[0] < FRESH_SECONDS else None

    def put(self, target: Target, interface: Interface) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[target] = (time.monotonic(), interface)

    def forget(self, target: Target) -> None:
        self._kept.pop(target, None)


known = Known()


async def find(client: Client, target: Target) -> Interface:
    found = known.get(target)
    if found is None:
        found = interface(target, await card(client, target))
        known.put(target, found)
    return found


def without_streams(target: Target, found: Interface) -> Interface:
    """As it turned out."""
    plain = replace(found, streaming=False)
    known.put(target, plain)
    return plain


async def card(client: Client, target: Target) -> Card | None:
    """As it is now; None where there is none."""
    for place in places(target.url):
        says = await _card(client, target, place)
        if says is not None:
            return Card(place, says)
    return None


def interface(target: Target, read: Card | None) -> Interface:
    """The one that is used."""
    if read is not None:
        return _chosen(read, target)
    if target.version == "auto" or target.binding == "auto":
        said = f"There is no agent card at {shown(target.url)}; name its version and binding to do without one."
        raise Trouble(Code.NO_INTERFACE, said)
    # Whether it streams is found out.
    return Interface(target.url, target.version, target.binding, streaming=True)


async def _card(client: Client, target: Target, place: str) -> dict[str, Any] | None:
    try:
        return await client.card(place)
    except Trouble as trouble:
        # Beside an interface that was named, whatever is no card is none.
        if "auto" in (target.version, target.binding) or not (trouble.code in NO_CARD or _hung_up(trouble, target)):
            raise
        return None


def _hung_up(trouble: Trouble, target: Target) -> bool:
    """As a server of gRPC's does that is spoken to in HTTP of another version. One that says `later` has a card."""
    return target.binding == "GRPC" and trouble.code == Code.UNREACHABLE and trouble.kind is None


def places(url: str) -> list[str]:
    read = URL(url)
    if read.path.endswith(".json"):
        return [url]
    base = str(read.with_query(None).with_fragment(None)).rstrip("/")
    return [f"{base}{place}" for place in PLACES]


def _chosen(read: Card, target: Target) -> Interface:
    found = cards.choose(read.says, target=target, base=read.place)
    if found is None:
        wanted = f"A2A {'1.0 or 0.3' if target.version == 'auto' else target.version}"
        way = "JSONRPC, HTTP+JSON or GRPC" if target.binding == "auto" else target.binding
        said = f"The agent card at {shown(read.place)} names no interface for {wanted} over {way}."
        raise Trouble(Code.NO_INTERFACE, said)
    return found


def shown(url: str) -> str:
    """A query may hold secrets."""
    return str(URL(url).with_query(None).with_fragment(None))[:300]
