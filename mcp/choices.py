"""The closed vocabularies of the gateway, and the moves between states."""

from django.db.models import TextChoices


class Transport(TextChoices):
    STDIO = "stdio", "Process (stdio)"
    HTTP = "http", "Streamable HTTP"
    SSE = "sse", "HTTP with SSE"


class Connection(TextChoices):
    """How a server is doing. Seed 004 calls them connected, degraded and disconnected."""

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
    PENDING = "pending", "Needs approval"
    APPROVED = "approved", "Approved"
    QUARANTINED = "quarantined", "Quarantined"
    WITHDRAWN = "withdrawn", "Gone from server"


DEFINITION_MOVES: dict[DefinitionState, frozenset[DefinitionState]] = {
    DefinitionState.PENDING: frozenset({DefinitionState.APPROVED, DefinitionState.WITHDRAWN}),
    DefinitionState.APPROVED: frozenset({DefinitionState.QUARANTINED, DefinitionState.WITHDRAWN}),
    DefinitionState.QUARANTINED: frozenset({DefinitionState.APPROVED, DefinitionState.WITHDRAWN}),
    # A tool that comes back is looked at again.
    DefinitionState.WITHDRAWN: frozenset({DefinitionState.PENDING, DefinitionState.QUARANTINED}),
}


class BudgetScope(TextChoices):
    SERVER = "server", "Server"
    TOOL = "tool", "Tool"
    AGENT = "agent", "Agent"
    GRANT = "grant", "Grant"


class BreakerState(TextChoices):
    CLOSED = "CLOSED", "Closed, calls flow"
    HALF_OPEN = "HALF-OPEN", "Half-open, one probe"
    OPEN = "OPEN", "Open, calls refused"


class BreakerScope(TextChoices):
    """Whose calls a breaker stops."""

    SERVER = "server", "All callers"
    IDENTITY = "identity", "One identity"


class FaultKind(TextChoices):
    """What a fault says about a server."""

    #: The server could not be reached, closed the connection, or answered with HTTP 5xx.
    CONNECTION = "connection", "Connection"
    #: No answer in time, an answer that is no MCP, or an error of the server's own. Arguments can cause each of these.
    ANSWER = "answer", "Answer"


class ApprovalState(TextChoices):
    PENDING = "pending", "Waiting"
    APPROVED = "approved", "Approved"
    REFUSED = "refused", "Refused"
    EXPIRED = "expired", "Expired"
    USED = "used", "Used"


class OriginKind(TextChoices):
    """What stands behind a call that waits."""

    PERSON = "person", "Person"
    IDENTITY = "identity", "Identity"
    RUN = "run", "Run"
    TASK = "task", "Task"


class HealthStatus(TextChoices):
    HEALTHY = "Healthy", "Healthy"
    DEGRADED = "Degraded", "Degraded"
    UNHEALTHY = "Unhealthy", "Unhealthy"
