"""Which version a request speaks, and how that version is read and written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2a.wire.codecs import Codec, Codecs
from a2a.wire.faults import Fault, Kind
from a2a.wire.v03 import json, protojson
from a2a.wire.v1.requests import READERS

CURRENT, OLD = "1.0", "0.3"


@dataclass(frozen=True)
class Dialect:
    """From a version's encoding to the shape of 1.0 and back, by operation."""

    version: str
    codecs: Codecs

    def read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        codec = self.codecs.get(operation)
        if codec is None:
            raise Fault(Kind.METHOD_NOT_FOUND, "This version of the protocol has no such operation.")
        return codec.read(params)

    def write(self, operation: str, told: Any) -> Any:
        return self.codecs[operation].write(told)

    def item(self, operation: str, told: Any) -> Any:
        """One of a stream."""
        write = self.codecs[operation].write_item
        assert write is not None  # an operation that streams has one
        return write(told)


#: 1.0's JSON is what is stored.
AS_IT_IS = Dialect(CURRENT, {name: Codec(read, write_item=dict) for name, read in READERS.items()})
RPC: dict[str, Dialect] = {CURRENT: AS_IT_IS, OLD: Dialect(OLD, json.OPERATIONS)}
#: 0.3's HTTP binding carries the JSON of its protocol buffers, which is another than its JSON-RPC's.
HTTP: dict[str, Dialect] = {CURRENT: AS_IT_IS, OLD: Dialect(OLD, protojson.OPERATIONS)}


def require(said: str, version: str) -> None:
    """Nobody who says nothing speaks 1.0: so the specification has it."""
    asked = said.strip() or OLD
    if asked != version:
        known, meant = " and ".join(RPC), f"speaks {asked}" if said.strip() else f"names no version, which means {OLD}"
        raise Fault(
            Kind.VERSION,
            f"This asks for A2A {version} and {meant}: send A2A-Version: {version}. This server speaks {known}.",
            details={"supportedVersions": known},
        )
