"""Types that the steps of a call exchange, and its errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from common.errors import GatehouseError, RateLimited
from mcp.choices import FaultKind
from mcp.limits.budget_state import RemainingQuota
from nhi.credentials.tokens import ParsedBearerToken
from nhi.decisions import reasons
from nhi.hooks import WaitingCall

#: Violations of each schema that the arguments were checked against, by the id of its grant or tool definition.
CheckedArguments = Mapping[UUID, Sequence[tuple[str, str]]]


#: How often the worker may ask for checks against more schemas before the call is refused.
MAX_SCHEMA_ROUNDS = 4


class GatewayOverloaded(RateLimited):
    """More calls wait in this process than can be decided in time."""

    code = "queue_full"


class CallerOverloaded(RateLimited):
    """More calls of this caller wait than can be decided in time. Calls of other callers are accepted."""

    code = "overloaded"


class DatabaseUnavailable(GatehouseError):
    """The database failed, or did not answer in time, while a call was decided. The call is not made."""

    code = "database_unavailable"

    def __init__(self) -> None:
        super().__init__("The database cannot be reached, so nothing was done.")


@dataclass(frozen=True)
class CallerContext:
    """Context that the caller sends with a call. It is stored with the log row and has no influence on decisions."""

    thread_id: str = ""
    session_id: str = ""
    task_id: str = ""
    user_instruction: str = ""


@dataclass(frozen=True)
class CallRequest:
    """One tool call to decide."""

    call_id: UUID
    token: ParsedBearerToken = field(repr=False)
    audience: str
    #: The server's name and the tool's name on it. Together they form the name of the tool's identity.
    server: str
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    args_hash: str
    request_id: UUID
    source: str
    context: CallerContext = field(default_factory=CallerContext)
    entry_point: str = "rest"
    checked: CheckedArguments = field(default_factory=dict, repr=False)
    #: Why the arguments could not be parsed.
    problem: str = ""
    problem_fields: tuple[tuple[str, str], ...] = ()
    #: How often the call was decided again because access changed between reading and writing.
    attempts: int = 0

    @property
    def name(self) -> str:
        return f"{self.server}__{self.tool}"


@dataclass(frozen=True)
class CallLease:
    """An allowed call whose lease is written. The call may be made once."""

    call_id: UUID
    server_id: UUID
    #: The tool's name on the server. The name in the log row may differ.
    tool: str = field(repr=False)
    #: Revision of the server's configuration that was decided upon, and the server's last known protocol era.
    revision: int
    era: str
    timeout: float
    definition_id: UUID
    decided_at: datetime
    #: The log row without the outcome.
    row: dict[str, Any] = field(repr=False)
    #: Whether a success must update the breaker or the server's status.
    service_has_faults: bool = False
    has_slots: bool = False
    #: Whether a budget sets a shorter timeout than the server.
    has_shortened_timeout: bool = False
    quota: RemainingQuota | None = None


@dataclass(frozen=True)
class CallRefusal:
    """A refused call. Its row is written; an attempt without a valid identity is only counted."""

    call_id: UUID
    reason: str
    message: str
    #: False when the caller never had a grant: the answer is the same as for a tool that does not exist.
    tool_is_visible: bool
    #: The token identifies nobody: the attempt is counted and has no log row.
    unknown_bearer: bool = False
    retry_after: int | None = None
    #: For a waiting call: when the approval expires, and the approval's id.
    expires_at: datetime | None = None
    approval_id: UUID | None = None
    fields: tuple[tuple[str, str], ...] = ()
    quota: RemainingQuota | None = None
    #: For a waiting call: no holder of a deciding role may decide about it.
    needs_superuser: bool = False
    #: Scope of the breaker that refused the call.
    breaker_scope: str = ""
    #: False for a refusal that was only counted: no row has its id.
    recorded: bool = True
    #: Notification for the task of the call when the call waits for a person.
    waiting: WaitingCall | None = None


@dataclass(frozen=True)
class SchemasNeeded:
    """The arguments must be checked against these schemas before the call can be decided."""

    grants: tuple[UUID, ...]
    definitions: tuple[UUID, ...]
    schemas: Mapping[UUID, dict[str, Any]] = field(default_factory=dict, repr=False)


CallDecision = CallLease | CallRefusal | SchemasNeeded


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of a call that was made."""

    lease: CallLease
    status: str
    duration: float
    reason: str = ""
    error_message: str = ""
    redaction_applied: bool = False
    #: What the outcome means for the health of the service: "fault", "success" or "" for neither.
    service_verdict: str = ""
    fault_kind: FaultKind = FaultKind.ANSWER
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def error_code(self) -> str:
        return reasons.kind_of(self.reason).error_code if self.reason else ""

    @property
    def updates_service(self) -> bool:
        """Whether the outcome changes what is stored about the service: a new fault, or the end of one."""
        return self.service_verdict == "fault" or self.lease.service_has_faults
