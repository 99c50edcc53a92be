"""Checks arguments against JSON schemas and remembers which schemas a caller needed.

The checks run in the caller's task, so that a call with large arguments does not delay others in the worker. The
schemas of a caller's last call of a tool are remembered and checked before its next call reaches the worker. They only
save a round trip: the worker decides which schemas apply and asks for the missing ones.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from mcp.gateway.types import CheckedArguments, SchemasNeeded
from nhi.decisions import json_schema
from nhi.decisions.json_schema import SchemaChecker

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")
SchemaProblems = list[tuple[str, str]]


class RecentCache(Generic[K, V]):
    """A cache of a limited number of recently used values."""

    def __init__(self, most: int) -> None:
        self._max_entries = most
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)


@dataclass(frozen=True)
class ArgumentSchema:
    """A schema with its compiled checker. The checker is None when the schema cannot be compiled."""

    schema: dict[str, Any]
    owner_label: str
    checker: SchemaChecker | None


_schemas = RecentCache[UUID, ArgumentSchema](4096)
_required_schemas = RecentCache[tuple[str, str, str], tuple[UUID, ...]](4096)


def check_remembered_schemas(caller: str, server: str, tool: str, arguments: Mapping[str, Any]) -> CheckedArguments:
    """Check against the schemas that the caller's last call of the tool needed."""
    wanted = _required_schemas.get((caller, server, tool)) or ()
    return {one: _check_schema(one, arguments) for one in wanted if one in _schemas}


def check_schemas(
    caller: str, server: str, tool: str, arguments: Mapping[str, Any], asked: SchemasNeeded
) -> CheckedArguments:
    """Check against the schemas that the worker asks for, and remember them for the next call."""
    for one, schema in asked.schemas.items():
        _schemas.put(one, prepare_schema(schema, whose="the grant" if one in asked.grants else "the tool"))
    wanted = (*asked.grants, *asked.definitions)
    before = _required_schemas.get((caller, server, tool)) or ()
    _required_schemas.put((caller, server, tool), tuple(dict.fromkeys((*wanted, *before)))[:8])
    return {one: _check_schema(one, arguments) for one in wanted if one in _schemas}


def find_schema(one: UUID) -> dict[str, Any] | None:
    found = _schemas.get(one)
    return None if found is None else found.schema


def prepare_schema(schema: dict[str, Any], *, whose: str) -> ArgumentSchema:
    try:
        return ArgumentSchema(schema, whose, json_schema.compile_schema(schema))
    except Exception:
        log.exception("a schema could not be read")
        return ArgumentSchema(schema, whose, None)


def find_problems(against: ArgumentSchema, arguments: Mapping[str, Any]) -> SchemaProblems:
    """Return violations of the schema. A schema that cannot be compiled rejects all arguments."""
    if against.checker is None:
        return [("$", f"the schema of {against.owner_label} cannot be read, so nothing passes it")]
    return against.checker.find_violations(arguments, whose=against.owner_label)


def _check_schema(one: UUID, arguments: Mapping[str, Any]) -> SchemaProblems:
    found = _schemas.get(one)
    assert found is not None  # callers check this first
    return find_problems(found, arguments)
