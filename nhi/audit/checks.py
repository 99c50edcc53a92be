"""Django system checks of the logs' protection."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import connections

from nhi.audit import append_only_triggers, excess_rights


def guards_are_set(
    *,
    app_configs: Sequence[AppConfig] | None = None,  # noqa: ARG001 - Django passes it by this name
    databases: Sequence[str] | None = None,
    **_kwargs: Any,
) -> list[CheckMessage]:
    """Check that every existing log table has its triggers and that the database role cannot drop them."""
    messages: list[CheckMessage] = []
    for alias in databases or []:
        connection = connections[alias]
        if len(append_only_triggers.existing_tables(connection)) < len(append_only_triggers.LOG_TABLES):
            continue
        if findings := append_only_triggers.inspect(connection):
            message = f"The record is not guarded: {'; '.join(map(str, findings))}."
            messages.append(Error(message, hint=append_only_triggers.remedy(connection, findings), id="nhi.E001"))
        messages += [CheckWarning(text, id="nhi.W001") for text in excess_rights.excess_right_warnings(connection)]
    return messages


def signing_keys_are_set(**_kwargs: Any) -> list[CheckMessage]:
    """Warn if row MACs use a key derived from SECRET_KEY, which also signs sessions and is rotated with them."""
    if settings.SIGNING_KEYS.keys:
        return []
    message = "SIGNING_KEYS is not set, so the MACs of record rows are made with a key derived from SECRET_KEY."
    hint = "Set SIGNING_KEYS. Keep SECRET_KEY, or list it in SECRET_KEY_FALLBACKS when it changes, for earlier rows."
    return [CheckWarning(message, hint=hint, id="nhi.W002")]
