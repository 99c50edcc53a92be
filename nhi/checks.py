"""System checks of the app."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error
from django.db import connections

from nhi.record import guards


def guards_are_set(
    *,
    app_configs: Sequence[AppConfig] | None = None,  # noqa: ARG001 - Django passes it by this name
    databases: Sequence[str] | None = None,
    **_kwargs: Any,
) -> list[CheckMessage]:
    """Every append-only table has its triggers, once it exists."""
    found: list[CheckMessage] = []
    for alias in databases or []:
        there = connections[alias].introspection.table_names()
        missing = guards.missing(connections[alias]) if set(guards.TABLES) <= set(there) else []
        if missing:
            hint = "Run `manage.py migrate`: it sets them again."
            found.append(Error(f"The record is not guarded: {', '.join(missing)} missing.", hint=hint, id="nhi.E001"))
    return found
