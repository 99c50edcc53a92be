"""What a person can do about a server that does not answer, by the words in which its fault is kept."""

from dataclasses import dataclass
from datetime import datetime

from mcp.choices import Transport
from mcp.models import Breaker, HealthReport, Server

#: The beginning or a part of what was taken down, and the way to mend it. The first that fits is said.
REMEDIES: tuple[tuple[str, str], ...] = (
    (
        "refused our credentials",
        "A secret or a header is refused by the server: look at Secrets, replace the value, and test again.",
    ),
    (
        "may not be connected",
        "The address leads into a network that is not called from here. Whoever runs Gatehouse can allow it.",
    ),
    (
        "No connection",
        "Nothing listens there, or a firewall stands between: see that it runs, and that host and port are right.",
    ),
    (
        "EXECUTABLE_ALLOWLIST",
        "Whoever runs this installation decides which programs may run; ask them to list this one.",
    ),
    ("process", "The process ended or did not start: run the command by hand on this machine and look at its output."),
    (
        "runs here",
        "The process that runs servers is not up: start the stdio owner, and look at System.",
    ),
    (
        "within",
        "It is up and slow, or hangs: look at the server's own log, or raise its timeout under Edit.",
    ),
    (
        "not with JSON",
        "Something else answers there: look whether the address ends in the path of its MCP endpoint, often /mcp.",
    ),
    (
        "event stream",
        "It may speak the other transport: try Streamable HTTP instead of HTTP with SSE, or the other way round.",
    ),
    ("tools/list", "It shook hands and then did not list its tools: look at the server's own log."),
    ("too long", "Its answer is larger than is taken here: let the server offer less at a time."),
    ("named", "Its host name leads nowhere: look whether it is spelled right."),
)
OTHER = {
    Transport.STDIO: "Run the command by hand on this machine and look at what it says.",
    Transport.HTTP: "Look at the server's own log for the moment of the last check.",
    Transport.SSE: "Look at the server's own log for the moment of the last check.",
}


@dataclass(frozen=True)
class Diagnosis:
    """The last handshake step by step and how it ended; and apart from that the last fault, often a call's."""

    steps: list[str]
    met: HealthReport | None
    fault: str
    #: When it was; None where nobody took that down.
    fault_at: datetime | None
    #: Whether the handshake itself ended in it.
    of_handshake: bool
    #: What to do about it, while it stands.
    remedy: str


def of(server: Server, met: HealthReport | None, breaker: Breaker | None) -> Diagnosis:
    """`met` is the newest report, whose steps the server keeps."""
    steps = [str(step) for step in server.last_handshake]
    own = met is not None and bool(met.error_message) and server.last_error in ("", met.error_message)
    counted = breaker.last_failure_time if breaker else None
    at = met.timestamp if own and met else counted
    return Diagnosis(steps, met, server.last_error, at, own, remedy(server) if server.last_error else "")


def remedy(server: Server) -> str:
    said = next((words for part, words in REMEDIES if part in server.last_error), "")
    return said or OTHER[Transport(server.transport)]
