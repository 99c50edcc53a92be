"""Which agent and which operation a path names."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from a2a.operations.table import OPERATIONS, Operation

_PATH = re.compile(r"/agents/([a-z0-9][a-z0-9._-]{0,62})(?:/(.*))?")
#: Cards and keys are pages of their own.
WELL_KNOWN = ".well-known/"
OLD_BASE = "v1/"


@dataclass(frozen=True)
class Place:
    agent: str
    #: What follows the agent's own address.
    rest: str


def takes(method: str, path: str) -> bool:
    """All but an agent's own address when it is only read: that is its card."""
    place = place_of(path)
    return place is not None and not (method in {"GET", "HEAD"} and not place.rest)


def place_of(path: str) -> Place | None:
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    rest = match[2] or ""
    return None if rest.startswith(WELL_KNOWN) else Place(match[1], rest)


def is_rpc(place: Place) -> bool:
    """With a slash at the end or without, since clients add one."""
    return place.rest.strip("/") in {"", "jsonrpc"}


def version_of(rest: str) -> str:
    """Whose words answer there, also where nothing is."""
    return "0.3" if rest.startswith(OLD_BASE) else "1.0"


@dataclass(frozen=True)
class Found:
    operation: Operation
    version: str
    #: Parameters that stand in the path.
    fields: dict[str, str]


def route(method: str, rest: str) -> Found | frozenset[str]:
    """The operation of a path; else the methods that the path would take, none where it leads nowhere."""
    version = version_of(rest)
    old = version == "0.3"
    allowed: set[str] = set()
    for operation in OPERATIONS.values():
        for one in operation.old_rest if old else operation.rest:
            match = one.pattern.fullmatch(rest.removeprefix(OLD_BASE) if old else rest)
            if match is not None and one.method == method:
                return Found(operation, version, match.groupdict())
            if match is not None:
                allowed.add(one.method)
    return frozenset(allowed)


def query(raw: bytes) -> dict[str, str]:
    """The parameters of a query; of one that stands twice, the last. Of more than anybody asks for, none."""
    try:
        return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=50))
    except ValueError:
        return {}
