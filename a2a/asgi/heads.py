"""The headers that a binding looks at."""

from collections.abc import Iterable
from dataclasses import dataclass

JSON, A2A_JSON = "application/json", "application/a2a+json"
#: Whoever sends one of these twice is read in two ways by two readers.
SINGLE = frozenset({"authorization", "content-type", "host", "idempotency-key", "last-event-id", "a2a-version"})


@dataclass(frozen=True)
class Head:
    values: dict[str, str]
    repeated: frozenset[str]

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    @property
    def media(self) -> str:
        return self.get("content-type").partition(";")[0].strip().lower()

    @property
    def wants_a2a_json(self) -> bool:
        """The protocol's own type is for those who name it; many a client takes plain JSON alone."""
        return self.media == A2A_JSON or A2A_JSON in self.get("accept").lower()


def read(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for raw, value in headers:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        if name in values and name in SINGLE:
            repeated.add(name)
        values[name] = f"{values[name]}, {text}" if name in values else text
    return Head(values, frozenset(repeated))


def takes_events_alone(head: Head) -> bool:
    taken = {one.partition(";")[0].strip().lower() for one in head.get("accept").split(",")}
    return taken == {"text/event-stream"}
