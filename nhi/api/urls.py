"""The paths of identities and access, below `/api/nhi/`. No slash at the end."""

from django.urls import path

from common.api import path_converters  # noqa: F401 - its converter registers itself
from nhi.api import audit, credentials, decisions, grants, identities, people, roles

IDENTITY, CREDENTIAL, GRANT = "identities/<id:identity_id>", "credentials/<id:credential_id>", "<id:grant_id>"
ROLE, ASSIGNMENT = "roles/<id:role_id>", "role-assignments/<id:assignment_id>"

urlpatterns = [
    path("me", people.Me.as_view()),
    path("people", people.People.as_view()),
    path("identities", identities.Identities.as_view()),
    path(IDENTITY, identities.OneIdentity.as_view()),
    path(f"{IDENTITY}/activate", identities.Activate.as_view()),
    path(f"{IDENTITY}/deactivate", identities.Deactivate.as_view()),
    path(f"{IDENTITY}/deprecate", identities.Deprecate.as_view()),
    path(f"{IDENTITY}/archive", identities.Archive.as_view()),
    path(f"{IDENTITY}/suspend", identities.Suspend.as_view()),
    path(f"{IDENTITY}/effective-access", identities.EffectiveAccess.as_view()),
    path(f"{IDENTITY}/copy-access", identities.CopyAccess.as_view()),
    path(f"{IDENTITY}/credentials", credentials.Credentials.as_view()),
    path(f"{CREDENTIAL}/rotate", credentials.Rotate.as_view()),
    path(f"{CREDENTIAL}/revoke", credentials.Revoke.as_view()),
    path("permissions/tools", grants.ToolGrants.as_view()),
    path("permissions/tools/bulk", grants.BulkToolGrants.as_view()),
    path(f"permissions/tools/{GRANT}", grants.OneToolGrant.as_view()),
    path(f"permissions/tools/{GRANT}/revoke", grants.RevokeToolGrant.as_view()),
    path("permissions/nhi", grants.NhiGrants.as_view()),
    path(f"permissions/nhi/{GRANT}", grants.OneNhiGrant.as_view()),
    path(f"permissions/nhi/{GRANT}/revoke", grants.RevokeNhiGrant.as_view()),
    path("permissions/users", grants.UserGrants.as_view()),
    path(f"permissions/users/{GRANT}", grants.OneUserGrant.as_view()),
    path(f"permissions/users/{GRANT}/revoke", grants.RevokeUserGrant.as_view()),
    path("roles", roles.Roles.as_view()),
    path(ROLE, roles.OneRole.as_view()),
    path(f"{ROLE}/capabilities/<id:capability_id>/approve", roles.ApproveCapability.as_view()),
    path("role-assignments", roles.Assignments.as_view()),
    path(ASSIGNMENT, roles.OneAssignment.as_view()),
    path(f"{ASSIGNMENT}/revoke", roles.RevokeAssignment.as_view()),
    path("decisions/check", decisions.Check.as_view()),
    path("decisions/explain", decisions.Explain.as_view()),
    path("audit-events", audit.AuditEvents.as_view()),
]
