"""Models of the app, with one module per subject."""

from nhi.models.audit import AuditEvent, CallRollup, InvocationLog
from nhi.models.credentials import Credential, RefusedAuthentication
from nhi.models.grants import NhiPermission, ToolPermission, UserPermission
from nhi.models.identities import Identity
from nhi.models.people import LastLook, SavedView, Seen, SignInGuard, SignInNotice, User
from nhi.models.processes import Process
from nhi.models.refusals import RefusalCount, RefusalTotal
from nhi.models.roles import Role, RoleAssignment, RoleCapability

__all__ = [
    "AuditEvent",
    "CallRollup",
    "Credential",
    "Identity",
    "InvocationLog",
    "LastLook",
    "NhiPermission",
    "Process",
    "RefusalCount",
    "RefusalTotal",
    "RefusedAuthentication",
    "Role",
    "RoleAssignment",
    "RoleCapability",
    "SavedView",
    "Seen",
    "SignInGuard",
    "SignInNotice",
    "ToolPermission",
    "User",
    "UserPermission",
]
