"""Arguments against schemas, in the caller's own task, so that no large call makes others wait at the desk.

What a caller's last call of a tool had to be checked against is remembered, and checked before the next one is even
brought to the desk. Remembering is no authority: the desk says which schemas count now, and asks again if need be.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from mcp.gateway.types import Checked, Unchecked
from nhi.decisions import json_schema
from nhi.decisions.json_schema import SchemaChecker

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


@dataclass(frozen=True)
class Known:
    """A schema that counts, ready to check against; no checker for one that cannot be read."""

    schema: dict[str, Any]
    whose: str
    checker: SchemaChecker | None


_schemas = Recent[UUID, Known](4096)
_wanted = Recent[tuple[str, str, str], tuple[UUID, ...]](4096)


def check_before(caller: str, server: str, tool: str, arguments: Mapping[str, Any]) -> Checked:
    """Against what counted the last time."""
    wanted = _wanted.get((caller, server, tool)) or ()
    return {one: _against(one, arguments) for one in wanted if one in _schemas}


def check(caller: str, server: str, tool: str, arguments: Mapping[str, Any], asked: Unchecked) -> Checked:
    """Against what the desk says counts now."""
    for one, schema in asked.schemas.items():
        _schemas.put(one, known(schema, whose="the grant" if one in asked.grants else "the tool"))
    wanted = (*asked.grants, *asked.definitions)
    before = _wanted.get((caller, server, tool)) or ()
    _wanted.put((caller, server, tool), tuple(dict.fromkeys((*wanted, *before)))[:8])
    return {one: _against(one, arguments) for one in wanted if one in _schemas}


def schema(one: UUID) -> dict[str, Any] | None:
    found = _schemas.get(one)
    return None if found is None else found.schema


def known(schema: dict[str, Any], *, whose: str) -> Known:
    try:
        return Known(schema, whose, json_schema.compile_schema(schema))
    except Exception:
        log.exception("a schema could not be read")
        return Known(schema, whose, None)


def problems(against: Known, arguments: Mapping[str, Any]) -> Problems:
    """A schema that cannot be read lets nothing pass."""
    if against.checker is None:
        return [("$", f"the schema of {against.whose} cannot be read, so nothing passes it")]
    return against.checker.find_violations(arguments, whose=against.whose)


def _against(one: UUID, arguments: Mapping[str, Any]) -> Problems:
    found = _schemas.get(one)
    assert found is not None  # asked just before
    return problems(found, arguments)
