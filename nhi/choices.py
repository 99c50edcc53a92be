"""Closed vocabularies (TextChoices) and the allowed state transitions."""

from django.db.models import TextChoices


class Kind(TextChoices):
    """The kind of an identity: agent, service account or tool."""

    AGENT = "agent", "Agent"
    SERVICE_ACCOUNT = "service_account", "Service account"
    TOOL = "tool", "Tool"


class State(TextChoices):
    """The state of an identity in its lifecycle. `TRANSITIONS` lists the allowed moves."""

    INACTIVE = "inactive", "Inactive"
    ACTIVE = "active", "Active"
    SUSPENDED = "suspended", "Suspended"
    DEPRECATED = "deprecated", "Deprecated"
    ARCHIVED = "archived", "Archived"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.INACTIVE: frozenset({State.ACTIVE, State.DEPRECATED}),
    State.ACTIVE: frozenset({State.INACTIVE, State.SUSPENDED, State.DEPRECATED}),
    State.SUSPENDED: frozenset({State.ACTIVE, State.DEPRECATED}),
    State.DEPRECATED: frozenset({State.ARCHIVED}),
    State.ARCHIVED: frozenset(),
}


class GrantState(TextChoices):
    """State of a credential, grant or role assignment, derived from `expires_at` and `revoked_at`."""

    LIVE = "live", "Live"
    EXPIRED = "expired", "Expired"
    REVOKED = "revoked", "Revoked"


class PermissionType(TextChoices):
    """What a grant between identities allows its holder.

    `CALL`: the target acts with its own rights. `DELEGATE`: the target acts on the holder's behalf, so that the rights
    of both limit it.
    """

    CALL = "call", "Call"
    DELEGATE = "delegate", "Delegate"


class Level(TextChoices):
    """What a grant lets a person do with an identity. Each level includes the ones before it."""

    USE = "use", "Use"
    MANAGE = "manage", "Manage"
    ADMIN = "admin", "Admin"

    @property
    def rank(self) -> int:
        return list(Level).index(self)

    @classmethod
    def at_least(cls, level: "Level") -> list["Level"]:
        return [other for other in cls if other.rank >= level.rank]


class Verdict(TextChoices):
    """Whether a decision allows or denies the action."""

    ALLOW = "allow", "Allowed"
    DENY = "deny", "Denied"


class CallStatus(TextChoices):
    """Outcome of a call in the invocation log."""

    SUCCESS = "success", "Success"
    ERROR = "error", "Error"
    PERMISSION_DENIED = "permission_denied", "Denied"
    RATE_LIMITED = "rate_limited", "Rate limited"


class ActorKind(TextChoices):
    """The kind of an actor. `SYSTEM` is Gatehouse itself or a command at the terminal."""

    USER = "user", "Person"
    IDENTITY = "identity", "Identity"
    SYSTEM = "system", "Gatehouse"
    ANONYMOUS = "anonymous", "Unknown caller"


class OriginRole(TextChoices):
    """Why a person is involved in a waiting call and so may not decide about it."""

    ASKED = "asked", "Asked for the run"
    SCHEDULE = "schedule", "Set up the schedule"
    SESSION = "session", "Took part in the session"
    TASK = "task", "Created the task, or spoke in it"
    MEMBER = "member", "In the chain"
    OWNER = "owner", "Owner"
    BACKUP_OWNER = "backup_owner", "Backup owner"
    CREDENTIAL = "credential", "Made a credential"


class NoticeKind(TextChoices):
    """Change to a person's sign-in by somebody else."""

    PASSWORD_SET = "password_set", "Password set"
    FACTOR_RESET = "factor_reset", "Second factor reset"


class StopCause(TextChoices):
    """Cause of a suspension, in addition to the reason as text. It determines the questions at reactivation."""

    EMERGENCY = "emergency", "Emergency stop"
    LEAK = "leak", "Leaked token"
    BEHAVIOUR = "behaviour", "Unexpected behaviour"
    OWNER = "owner", "Owner asked"
