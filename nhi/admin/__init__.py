"""The console's pages of this app. Importing a module registers what it has."""

from nhi.admin import (
    audit,
    audit_refusals,
    credentials,
    explain,
    grants,
    identities,
    navigation,
    people,
    roles,
    saved_views,
    system,
)

__all__ = [
    "audit",
    "audit_refusals",
    "credentials",
    "explain",
    "grants",
    "identities",
    "navigation",
    "people",
    "roles",
    "saved_views",
    "system",
]
