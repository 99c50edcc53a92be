"""The process of a server that runs here, as the one that owns it tells."""

from dataclasses import dataclass
from datetime import datetime

from common.db import clock
from common.redaction.redactor import Redactor
from common.threads import background_loop
from mcp.client import transports
from mcp.client.stdio_transport import StdioTransport
from mcp.models import Server
from mcp.protocol.errors import UpstreamFailure
from mcp.servers.targets import resolve_server

#: A page does not wait longer for the owner than this.
SECONDS = 1.0
LAST_LINES = 30


@dataclass(frozen=True)
class Process:
    """`trouble` says why nothing is known of it; then all else is empty."""

    trouble: str = ""
    pid: int | None = None
    since: datetime | None = None
    starts: int = 0
    failures: int = 0
    last_end: str = ""
    #: What it wrote on standard error, its secrets taken out.
    said: tuple[str, ...] = ()


def of(server: Server) -> Process | None:
    """None for a server that is no process of ours."""
    owner = transports.TRANSPORTS[server.transport]
    if not isinstance(owner, StdioTransport):
        return None
    try:
        told = background_loop.run(owner.status(server.pk, timeout=SECONDS), timeout=SECONDS + 1)
    except UpstreamFailure as trouble:
        return Process(trouble=str(getattr(trouble, "detail", trouble)))
    except TimeoutError:
        return Process(trouble=f"The process that runs servers did not answer within {SECONDS:g} s.")
    redactor = Redactor(secret_values=frozenset(resolve_server(server).secret_values))
    lines = tuple(redactor.redact_text(str(line)) for line in told.get("stderr", [])[-LAST_LINES:])
    return Process(
        pid=told.get("pid"),
        since=clock.parse_database_time(told["since"]) if told.get("since") else None,
        starts=int(told.get("starts", 0)),
        failures=int(told.get("failures", 0)),
        last_end=redactor.redact_text(str(told.get("last_end") or "")),
        said=lines,
    )
