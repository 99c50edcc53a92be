"""The console's pages of this app. Importing a module registers what it has."""

from nhi.admin import explain, navigation, saved_views, system
from nhi.admin.audit import authentication_failures
from nhi.admin.audit import changelist as audit
from nhi.admin.credentials import changelist as credentials
from nhi.admin.grants import changelist as grants
from nhi.admin.identities import changelist as identities
from nhi.admin.people import changelist as people
from nhi.admin.roles import changelist as roles

__all__ = [
    "audit",
    "authentication_failures",
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
