"""Which version a request speaks, and how that version is read and written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a.wire.faults import Fault, Kind
from a2a.wire.v1 import requests

Shape = Callable[[Any], Any]
CURRENT, OLD = "1.0", "0.3"


def as_it_is(told: Any) -> Any:
    return told


@dataclass(frozen=True)
class Dialect:
    """From a version's encoding to the shape of 1.0 and back, by operation."""

    readers: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]
    writers: Mapping[str, Shape] = field(default_factory=dict)
    item: Shape = as_it_is

    def read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        reader = self.readers.get(operation)
        if reader is None:
            raise Fault(Kind.METHOD_NOT_FOUND, "This version of the protocol has no such operation.")
        return reader(params)

    def write(self, operation: str, told: Any) -> Any:
        return self.writers.get(operation, as_it_is)(told)


RPC: dict[str, Dialect] = {CURRENT: Dialect(requests.READERS)}
#: 0.3's HTTP binding carries the JSON of its protocol buffers, which is another than its JSON-RPC's.
HTTP: dict[str, Dialect] = {CURRENT: Dialect(requests.READERS)}


def require(said: str, version: str) -> None:
    """Nobody who says nothing speaks 1.0: so the specification has it."""
    asked = said.strip() or OLD
    if asked != version:
        known = " and ".join(RPC)
        raise Fault(
            Kind.VERSION,
            f"This asks for A2A {version} and says that it speaks {asked}: send A2A-Version: {version}. "
            f"This server speaks {known}.",
            details={"supportedVersions": known},
        )
