"""Types that the steps of a call exchange, and its errors."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from common import canonical_json
from common.errors import GatehouseError, RateLimited
from common.ids import uuid7
from mcp.choices import FaultKind
from mcp.client.transports import OnProgress
from mcp.limits.budget_state import RemainingQuota
from nhi.authorization import oauth
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
class CallContext:
    """What the caller states about a call. It is not verified; only a task id that is a UUID influences decisions."""

    thread_id: str = ""
    session_id: str = ""
    task_id: str = ""
    user_instruction: str = ""


@dataclass(frozen=True)
class CallRequest:
    """One tool call, as an entry point received it."""

    token: ParsedBearerToken = field(repr=False)
    #: The server's name and the tool's name on it. Together they form the name of the tool's identity.
    server: str
    tool: str
    arguments: dict[str, Any] = field(repr=False)
    request_id: UUID
    source: str
    context: CallContext = field(default_factory=CallContext)
    entry_point: str = "rest"
    on_progress: OnProgress | None = field(default=None, repr=False)
    #: The key by which the client can cancel the call from any connection; empty if it cannot.
    cancel_key: str = ""
    #: Why the arguments could not be parsed. Whether the caller may know the tool is still decided.
    problem: str = ""
    problem_fields: tuple[tuple[str, str], ...] = ()
    call_id: UUID = field(default_factory=uuid7)

    @cached_property
    def args_hash(self) -> str:
        """SHA-256 of the canonical arguments, by which approvals and readers of the log recognise them."""
        return hashlib.sha256(canonical_json.encode(self.arguments)).hexdigest()

    @property
    def name(self) -> str:
        return f"{self.server}__{self.tool}"

    @property
    def audience(self) -> str:
        """The audience that a short-lived token of this call must have."""
        return oauth.rest_resource() if self.entry_point == "rest" else oauth.mcp_resource()


def split_tool_name(name: str) -> tuple[str, str]:
    """Split a qualified name at its first `__`. Without `__` the whole name is returned as the server, with no tool."""
    server, _, tool = name.partition("__")
    return server, tool


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
class CallResult:
    """What became of a call, for its caller and for its log row. It contains no secret that Gatehouse knows.

    An allowed call has its lease, a refused call its refusal. A call with a personal token has neither.
    """

    status: str
    reason: str = ""
    message: str = ""
    #: The message of the log row, where it names details that only operators may read.
    operator_message: str | None = field(default=None, repr=False)
    result: dict[str, Any] | None = field(default=None, repr=False)
    lease: CallLease | None = None
    refusal: CallRefusal | None = None
    #: Whether secrets were removed from the result or the message.
    redacted: bool = False
    #: What the outcome means for the health of the service: "fault", "success" or "" for neither.
    service_verdict: str = ""
    fault_kind: FaultKind = FaultKind.ANSWER
    #: Client capabilities that the server requires and that Gatehouse does not pass on.
    required_capabilities: tuple[str, ...] = ()
    duration_ms: float = 0.0
    #: `details` of the log row.
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def error_code(self) -> str:
        return reasons.outcome_of(self.reason).error_code if self.reason else ""

    @property
    def log_message(self) -> str:
        return self.message if self.operator_message is None else self.operator_message

    @property
    def held_lease(self) -> CallLease:
        assert self.lease is not None  # only allowed calls are recorded by their result
        return self.lease

    @property
    def updates_service(self) -> bool:
        """Whether the outcome changes what is stored about the service: a new fault, or the end of one."""
        return self.service_verdict == "fault" or self.held_lease.service_has_faults

    @property
    def call_id(self) -> UUID | None:
        """The id of the call's row. For a refusal without a row, the id of the call that waits for a person, if any."""
        if self.refusal is not None:
            return self.refusal.call_id if self.refusal.recorded else self.refusal.approval_id
        return None if self.lease is None else self.lease.call_id

    @property
    def recorded(self) -> bool:
        return self.refusal is None or self.refusal.recorded

    @property
    def tool_is_visible(self) -> bool:
        """False when the caller never had a grant: the answer is the same as for a tool that does not exist."""
        return self.refusal is None or self.refusal.tool_is_visible

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        return () if self.refusal is None else self.refusal.fields

    @property
    def retry_after(self) -> int | None:
        return None if self.refusal is None else self.refusal.retry_after

    @property
    def expires_at(self) -> datetime | None:
        return None if self.refusal is None else self.refusal.expires_at

    @property
    def quota(self) -> RemainingQuota | None:
        source = self.lease or self.refusal
        return None if source is None else source.quota
