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

from mcp.gateway.types import CallRequest, CheckedArguments, SchemasNeeded
from nhi.credentials.tokens import ParsedCredentialToken
from nhi.decisions import json_schema
from nhi.decisions.json_schema import SchemaChecker

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")
SchemaProblems = list[tuple[str, str]]


class RecentCache(Generic[K, V]):
    """A cache of a limited number of recently used values."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

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


def check_remembered_schemas(request: CallRequest) -> CheckedArguments:
    """Check against the schemas that the caller's last call of the tool needed."""
    schema_ids = _required_schemas.get(_memory_key(request)) or ()
    return {schema_id: _check_schema(schema_id, request.arguments) for schema_id in schema_ids if schema_id in _schemas}


def check_schemas(request: CallRequest, schemas_needed: SchemasNeeded) -> CheckedArguments:
    """Check against the schemas that the worker asks for, and remember them for the next call."""
    for schema_id, schema in schemas_needed.schemas.items():
        _schemas.put(
            schema_id,
            prepare_schema(schema, owner_label="the grant" if schema_id in schemas_needed.grants else "the tool"),
        )
    schema_ids = (*schemas_needed.grants, *schemas_needed.definitions)
    key = _memory_key(request)
    _required_schemas.put(key, tuple(dict.fromkeys((*schema_ids, *(_required_schemas.get(key) or ()))))[:8])
    return {schema_id: _check_schema(schema_id, request.arguments) for schema_id in schema_ids if schema_id in _schemas}


def find_schema(schema_id: UUID) -> dict[str, Any] | None:
    argument_schema = _schemas.get(schema_id)
    return None if argument_schema is None else argument_schema.schema


def prepare_schema(schema: dict[str, Any], *, owner_label: str) -> ArgumentSchema:
    try:
        return ArgumentSchema(schema, owner_label, json_schema.compile_schema(schema))
    except Exception:
        log.exception("a schema could not be read")
        return ArgumentSchema(schema, owner_label, None)


def find_problems(argument_schema: ArgumentSchema, arguments: Mapping[str, Any]) -> SchemaProblems:
    """Return violations of the schema. A schema that cannot be compiled rejects all arguments."""
    if argument_schema.checker is None:
        return [("$", f"the schema of {argument_schema.owner_label} cannot be read, so nothing passes it")]
    return argument_schema.checker.find_violations(arguments, schema_owner=argument_schema.owner_label)


def _memory_key(request: CallRequest) -> tuple[str, str, str]:
    token = request.token
    caller = token.public_id if isinstance(token, ParsedCredentialToken) else str(token.credential_id)
    return caller, request.server, request.tool


def _check_schema(schema_id: UUID, arguments: Mapping[str, Any]) -> SchemaProblems:
    argument_schema = _schemas.get(schema_id)
    assert argument_schema is not None  # callers check this first
    return find_problems(argument_schema, arguments)
