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


def attach_schemas(questions: Mapping[UUID, SchemasNeeded]) -> dict[UUID, Any]:
    """Add the schemas to each `SchemasNeeded`."""
    if not questions:
        return {}
    grants = {one for question in questions.values() for one in question.grants}
    definitions = {one for question in questions.values() for one in question.definitions}
    known = _load_grant_schemas(grants) | _load_definition_schemas(definitions)
    return {
        call_id: replace(question, schemas={one: known[one] for one in (*question.grants, *question.definitions)})
        for call_id, question in questions.items()
    }


def _load_grant_schemas(ids: set[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = ToolPermission.objects.filter(pk__in=ids).values_list("pk", "allowed_parameters")
    return {pk: schema or {} for pk, schema in rows} if ids else {}


def _load_definition_schemas(ids: set[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = ToolDefinition.objects.filter(pk__in=ids).values_list("pk", "body")
    return {pk: body.get("inputSchema") or {} for pk, body in rows} if ids else {}
