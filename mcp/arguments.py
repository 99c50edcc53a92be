"""Arguments against schemas, in the caller's own task, so that no large call makes others wait at the desk.

What a caller's last call of a tool had to be checked against is remembered, and checked before the next one is even
brought to the desk. Remembering is no authority: the desk says which schemas count now, and asks again if need be.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

from mcp.clerk.words import Checked, Unchecked
from nhi import schemas

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")
Problems = list[tuple[str, str]]


class Recent(Generic[K, V]):
    """The last so many things, by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        self._kept[key] = value
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


#: Each with what is said to own it.
_schemas = Recent[UUID, tuple[dict[str, Any], str]](4096)
_wanted = Recent[tuple[str, str, str], tuple[UUID, ...]](4096)


def check_before(caller: str, server: str, tool: str, arguments: Mapping[str, Any]) -> Checked:
    """Against what counted the last time."""
    wanted = _wanted.get((caller, server, tool)) or ()
    return {one: _against(one, arguments) for one in wanted if one in _schemas}


def check(caller: str, server: str, tool: str, arguments: Mapping[str, Any], asked: Unchecked) -> Checked:
    """Against what the desk says counts now."""
    for one, schema in asked.schemas.items():
        _schemas.put(one, (schema, "the grant" if one in asked.grants else "the tool"))
    wanted = (*asked.grants, *asked.definitions)
    before = _wanted.get((caller, server, tool)) or ()
    _wanted.put((caller, server, tool), tuple(dict.fromkeys((*wanted, *before)))[:8])
    return {one: _against(one, arguments) for one in wanted if one in _schemas}


def schema(one: UUID) -> dict[str, Any] | None:
    known = _schemas.get(one)
    return None if known is None else known[0]


def _against(one: UUID, arguments: Mapping[str, Any]) -> Problems:
    known = _schemas.get(one)
    assert known is not None  # asked just before
    return problems(known[0], arguments, whose=known[1])


def problems(schema: dict[str, Any], arguments: Mapping[str, Any], *, whose: str) -> Problems:
    """A schema that cannot be read lets nothing pass."""
    try:
        return schemas.violations(schema, dict(arguments), whose=whose)
    except Exception:
        log.exception("a schema could not be read")
        return [("$", f"the schema of {whose} cannot be read, so nothing passes it")]
