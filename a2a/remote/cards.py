"""What a remote agent's card says of the ways to it: cards of 1.0, of 0.3, and those that are both."""

from collections.abc import Iterator, Mapping
from typing import Any

from yarl import URL

from a2a.remote.target import BINDINGS, VERSIONS, Binding, Interface, Target, Version

LONGEST_TENANT = 200


def choose(card: Mapping[str, Any], *, target: Target, base: str) -> Interface | None:
    """The first that the card prefers among those of the newest version that both sides speak; gRPC comes last."""
    known = [one for one in _interfaces(card, base) if _fits(one, target)]
    return min(known, key=lambda one: (one.binding == "GRPC", VERSIONS.index(one.version)), default=None)


def _fits(one: Interface, target: Target) -> bool:
    return target.version in ("auto", one.version) and target.binding in ("auto", one.binding)


def _interfaces(card: Mapping[str, Any], base: str) -> Iterator[Interface]:
    streaming = _streaming(card)
    for url, version, binding, tenant in (*_new(card), *_old(card)):
        if (spoken := _version(version)) and (way := _binding(binding)) and (place := _place(base, url, way)):
            yield Interface(place, spoken, way, _text(tenant)[:LONGEST_TENANT], streaming)


def _new(card: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any, Any]]:
    for one in _list(card, "supportedInterfaces", "supported_interfaces"):
        version = one.get("protocolVersion", one.get("protocol_version"))
        yield one.get("url"), version, one.get("protocolBinding", one.get("protocol_binding")), one.get("tenant")


def _old(card: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any, Any]]:
    version = card.get("protocolVersion", card.get("protocol_version")) or "0.3"
    if card.get("url"):
        yield card["url"], version, card.get("preferredTransport", card.get("preferred_transport")) or "JSONRPC", ""
    for one in _list(card, "additionalInterfaces", "additional_interfaces"):
        yield one.get("url"), version, one.get("transport"), ""


def _streaming(card: Mapping[str, Any]) -> bool:
    able = card.get("capabilities")
    return isinstance(able, Mapping) and able.get("streaming") is True


def _version(said: Any) -> Version | None:
    """By major and minor: a patch changes nothing on the wire."""
    short = ".".join(_text(said).split(".")[:2])
    return next((one for one in VERSIONS if one == short), None)


def _binding(said: Any) -> Binding | None:
    return next((one for one in BINDINGS if one == _text(said).upper()), None)


def _place(base: str, url: Any, binding: Binding) -> str:
    """Empty where it is nowhere that is reached by HTTP, of either version."""
    said = _text(url)
    if said and binding == "GRPC":
        # Most cards tell of it as `host:port`, some as its library writes that: with TLS where the card had it.
        said = said.removeprefix("dns:///")
        said = said if "://" in said else f"//{said}"
    try:
        named = URL(said)
        whole = URL(base).join(named)
    except ValueError:
        return ""
    is_one = whole.scheme in ("http", "https") and (named.raw_host if binding == "GRPC" else said)
    return str(whole) if is_one else ""


def _list(card: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    found = next((card[name] for name in names if name in card), None)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _text(said: Any) -> str:
    return said if isinstance(said, str) else ""
