"""Loads the schemas that arguments are checked against.

The limits of a grant and a tool definition are never edited, and a new schema has a new id. Each process therefore
loads a schema once and caches it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from mcp.gateway.types import SchemasNeeded
from mcp.models import ToolDefinition
from nhi.models import ToolPermission


def attach_schemas(needed_by_call: Mapping[UUID, SchemasNeeded]) -> dict[UUID, Any]:
    """Add the schemas to each `SchemasNeeded`."""
    if not needed_by_call:
        return {}
    grants = {schema_id for schemas_needed in needed_by_call.values() for schema_id in schemas_needed.grants}
    definitions = {schema_id for schemas_needed in needed_by_call.values() for schema_id in schemas_needed.definitions}
    schemas = _load_grant_schemas(grants) | _load_definition_schemas(definitions)
    return {
        call_id: replace(
            schemas_needed,
            schemas={
                schema_id: schemas[schema_id] for schema_id in (*schemas_needed.grants, *schemas_needed.definitions)
            },
        )
        for call_id, schemas_needed in needed_by_call.items()
    }


def _load_grant_schemas(ids: set[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = ToolPermission.objects.filter(pk__in=ids).values_list("pk", "allowed_parameters")
    return {pk: schema or {} for pk, schema in rows} if ids else {}


def _load_definition_schemas(ids: set[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = ToolDefinition.objects.filter(pk__in=ids).values_list("pk", "body")
    return {pk: body.get("inputSchema") or {} for pk, body in rows} if ids else {}
