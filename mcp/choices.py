"""States and kinds of the gateway's rows, and the allowed transitions between states."""

from django.db.models import TextChoices


class Transport(TextChoices):
    """How Gatehouse reaches an MCP server: it runs the server's process, or connects over HTTP."""

    STDIO = "stdio", "Process (stdio)"
    HTTP = "http", "Streamable HTTP"
    SSE = "sse", "HTTP with SSE"


class Connection(TextChoices):
    """The connection status of a server. Seed 004 calls the values connected, degraded and disconnected."""

    READY = "Ready", "Ready"
    DEGRADED = "Degraded", "Degraded"
    OFFLINE = "Offline", "Offline"


CONNECTION_MOVES: dict[Connection, frozenset[Connection]] = {
    Connection.OFFLINE: frozenset({Connection.READY}),
    Connection.READY: frozenset({Connection.DEGRADED, Connection.OFFLINE}),
    Connection.DEGRADED: frozenset({Connection.READY, Connection.OFFLINE}),
}
SEED_WORDS = {Connection.READY: "connected", Connection.DEGRADED: "degraded", Connection.OFFLINE: "disconnected"}


class DefinitionState(TextChoices):
    """The state of a tool, by the approval of its definition. Only approved tools can be called."""

    PENDING = "pending", "Needs approval"
    APPROVED = "approved", "Approved"
    QUARANTINED = "quarantined", "Quarantined"
    WITHDRAWN = "withdrawn", "Gone from server"


DEFINITION_MOVES: dict[DefinitionState, frozenset[DefinitionState]] = {
    DefinitionState.PENDING: frozenset({DefinitionState.APPROVED, DefinitionState.WITHDRAWN}),
    DefinitionState.APPROVED: frozenset({DefinitionState.QUARANTINED, DefinitionState.WITHDRAWN}),
    DefinitionState.QUARANTINED: frozenset({DefinitionState.APPROVED, DefinitionState.WITHDRAWN}),
    # A tool that returns needs a new review.
    DefinitionState.WITHDRAWN: frozenset({DefinitionState.PENDING, DefinitionState.QUARANTINED}),
}


class BudgetScope(TextChoices):
    """The kind of object whose calls a budget limits.

    `AGENT` includes service accounts. `GRANT` is a grant from an agent to a tool.
    """

    SERVER = "server", "Server"
    TOOL = "tool", "Tool"
    AGENT = "agent", "Agent"
    GRANT = "grant", "Grant"


class BreakerState(TextChoices):
    """The state of a circuit breaker. While it is half-open, one call tests whether the service is back."""

    CLOSED = "CLOSED", "Closed, calls flow"
    HALF_OPEN = "HALF-OPEN", "Half-open, one probe"
    OPEN = "OPEN", "Open, calls refused"


class BreakerScope(TextChoices):
    """Whether a breaker stops the calls of all callers to its service, or only those of one identity."""

    SERVER = "server", "All callers"
    IDENTITY = "identity", "One identity"


class FaultKind(TextChoices):
    """What failed in a server fault: the connection, or the answer."""

    #: The server could not be reached, closed the connection, or answered with HTTP 5xx.
    CONNECTION = "connection", "Connection"
    #: The server timed out, sent an answer that is not MCP, or sent an error. Arguments can cause each of these.
    ANSWER = "answer", "Answer"


class ApprovalState(TextChoices):
    """The state of a call that waits for approval.

    `EXPIRED` also applies to an approved call that was not made in time, `USED` to one that was made.
    """

    PENDING = "pending", "Waiting"
    APPROVED = "approved", "Approved"
    REFUSED = "refused", "Refused"
    EXPIRED = "expired", "Expired"
    USED = "used", "Used"


class OriginKind(TextChoices):
    """What an origin of a waiting call is: a person, an identity, a run or a task."""

    PERSON = "person", "Person"
    IDENTITY = "identity", "Identity"
    RUN = "run", "Run"
    TASK = "task", "Task"


class HealthStatus(TextChoices):
    """The result of a health check. `DEGRADED` means that the handshake succeeded and was slow."""

    HEALTHY = "Healthy", "Healthy"
    DEGRADED = "Degraded", "Degraded"
    UNHEALTHY = "Unhealthy", "Unhealthy"
