"""What the clerk is asked and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from common.errors import GatehouseError, RateLimited
from mcp.choices import FaultKind
from mcp.limits.budget_state import RemainingQuota
from nhi.credentials.tokens import ParsedBearerToken
from nhi.hooks import WaitingCall

#: Where arguments break a schema, by what the schema belongs to: a grant or a tool's definition.
CheckedArguments = Mapping[UUID, Sequence[tuple[str, str]]]


#: How often the desk may ask to check arguments against another schema before a call is turned away.
MAX_SCHEMA_ROUNDS = 4


class GatewayOverloaded(RateLimited):
    """More calls wait here than can be decided in good time."""

    code = "queue_full"


class CallerOverloaded(RateLimited):
    """More calls of this caller wait here than can be decided in good time; those of others are decided."""

    code = "overloaded"


class DatabaseUnavailable(GatehouseError):
    code = "database_unavailable"

    def __init__(self) -> None:
        super().__init__("The database cannot be reached, so nothing was done.")


@dataclass(frozen=True)
class CallContext:
    """What the caller said around its call; kept with the log row, decided by nothing."""

    thread_id: str = ""
    session_id: str = ""
    task_id: str = ""
    user_instruction: str = ""


@dataclass(frozen=True)
class CallRequest:
    """One call that somebody wants to make."""

    call_id: UUID
    token: ParsedBearerToken = field(repr=False)
    audience: str
    #: The server's name and the tool's own; together the name of the tool's identity.
    server: str
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    args_hash: str
    request_id: UUID
    source: str
    context: CallContext = field(default_factory=CallContext)
    entry_point: str = "rest"
    checked: CheckedArguments = field(default_factory=dict, repr=False)
    #: Why its arguments could not be read at all.
    problem: str = ""
    problem_fields: tuple[tuple[str, str], ...] = ()
    #: How often it came back because access had changed between reading and writing.
    attempts: int = 0

    @property
    def name(self) -> str:
        return f"{self.server}__{self.tool}"


@dataclass(frozen=True)
class CallLease:
    """A call that may be made, once: its lease is written."""

    call_id: UUID
    server_id: UUID
    #: As the server calls it; the log row may say it in other words.
    tool: str = field(repr=False)
    #: Which configuration of the server was decided upon, and the era it was last met in.
    revision: int
    era: str
    timeout: float
    definition_id: UUID
    decided_at: datetime
    #: The log row as far as it is known.
    row: dict[str, Any] = field(repr=False)
    #: Whether a success has something to put right: the breaker or the server's status.
    service_has_faults: bool = False
    has_slots: bool = False
    #: Whether a budget cut the time shorter than the server's own.
    has_shortened_timeout: bool = False
    quota: RemainingQuota | None = None


@dataclass(frozen=True)
class CallRefusal:
    """A call that may not be made; its row is written, or its attempt counted when nobody is known to have made it."""

    call_id: UUID
    status: str
    reason: str
    message: str
    #: False for what this caller never held: it is told the same as of a tool that does not exist.
    tool_is_visible: bool
    error_code: str = "Unauthorized"
    #: The bearer showed nothing that counts: there is no log row, only a count.
    unknown_bearer: bool = False
    retry_after: int | None = None
    #: Until when a waiting call may be approved, and the call by which the approval is followed.
    expires_at: datetime | None = None
    approval_id: UUID | None = None
    fields: tuple[tuple[str, str], ...] = ()
    quota: RemainingQuota | None = None
    #: Of a waiting call: nobody who holds the role may decide about it.
    needs_superuser: bool = False
    #: Whose calls the breaker stops that refused this one.
    breaker_scope: str = ""
    #: False for a call that was counted: it has no row, so its id names nothing.
    recorded: bool = True
    #: What the task that it was made in is told, when a person has to look at it.
    waiting: WaitingCall | None = None


@dataclass(frozen=True)
class SchemasNeeded:
    """The arguments were not checked yet against these schemas; check them and ask again."""

    grants: tuple[UUID, ...]
    definitions: tuple[UUID, ...]
    schemas: Mapping[UUID, dict[str, Any]] = field(default_factory=dict, repr=False)


CallDecision = CallLease | CallRefusal | SchemasNeeded


@dataclass(frozen=True)
class CallOutcome:
    """What became of a call that was made."""

    lease: CallLease
    status: str
    duration: float
    reason: str = ""
    error_code: str = ""
    error_message: str = ""
    redaction_applied: bool = False
    #: What it says of the service: "fault", "success", or nothing.
    service_verdict: str = ""
    fault_kind: FaultKind = FaultKind.ANSWER
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def updates_service(self) -> bool:
        """Whether there is something to say of the service: a fault, or that one is over."""
        return self.service_verdict == "fault" or self.lease.service_has_faults
