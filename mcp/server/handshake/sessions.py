"""Starts, checks and ends sessions. The functions query the database: call them in a thread."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from common.db import clock
from common.errors import GatehouseError, RateLimited
from common.ids import uuid7
from mcp.gateway import callers
from mcp.models import McpSession, SessionStartCount
from mcp.server.errors import RequestId
from mcp.server.handshake import session_ids
from mcp.server.handshake.session_ids import SessionClaims

SESSION_LIFETIME = timedelta(days=7)
KEEP_ROWS_FOR = timedelta(days=1)
MAX_STARTS_PER_MINUTE = 60
KEEP_COUNTS_FOR = timedelta(minutes=5)
# Valid on both databases. The ORM cannot express an upsert that adds.
COUNT_START = """
INSERT INTO mcp_session_start_count (id, identity_id, minute, total) VALUES (%s, %s, %s, %s)
ON CONFLICT (identity_id, minute) DO UPDATE SET total = mcp_session_start_count.total + excluded.total
RETURNING total
"""


class SessionRequired(GatehouseError):
    """The request names no session, and its method needs one."""

    code = "session_required"

    def __init__(self) -> None:
        super().__init__("Send initialize first, then the Mcp-Session-Id of its answer, once, with every request.")


class SessionNotFound(GatehouseError):
    """The session has ended or expired, is not the caller's, belongs to another endpoint, or never existed."""

    code = "session_not_found"

    def __init__(self) -> None:
        super().__init__("There is no such session. Send initialize again, without Mcp-Session-Id.")


@dataclass(frozen=True)
class CheckedSession:
    """A session whose id was checked for its caller, its endpoint and the current time."""

    id: str
    claims: SessionClaims
    checked_at: datetime

    @property
    def key(self) -> str:
        """The key of the session's row."""
        return hashlib.sha256(self.id.encode()).hexdigest()

    @property
    def expires_at(self) -> datetime:
        return datetime.fromtimestamp(self.claims.issued_at, UTC) + SESSION_LIFETIME

    def make_cancel_key(self, request_id: RequestId) -> str:
        """Return the key by which any process finds the call of a request. The ids 1 and "1" differ."""
        json_type = "string" if isinstance(request_id, str) else "number"
        return hashlib.sha256(f"{self.id}\n{json_type}\n{request_id}".encode()).hexdigest()


def start(bearer: str, *, server: str, version: str, capabilities: frozenset[str]) -> str:
    """Return the id of a new session. Raise `RateLimited` for too many in one minute."""
    caller = callers.authenticate_caller(bearer)
    _count_start(caller)
    return session_ids.issue(
        SessionClaims(
            version=version,
            capabilities=capabilities,
            issued_at=int(caller.at.timestamp()),
            access_epoch=caller.identity.access_epoch,
            identity_id=caller.identity.pk,
            endpoint=session_ids.make_endpoint_digest(server),
        )
    )


def check(bearer: str, session_id: str | None, *, server: str) -> CheckedSession:
    """Authenticate the caller, then check the session that the request names."""
    caller = callers.authenticate_caller(bearer)
    if session_id is None:
        raise SessionRequired
    claims = session_ids.parse(session_id)
    if claims is None:
        raise SessionNotFound
    session = CheckedSession(session_id, claims, caller.at)
    is_current = (
        claims.identity_id == caller.identity.pk
        and claims.access_epoch == caller.identity.access_epoch
        and claims.endpoint == session_ids.make_endpoint_digest(server)
        and session.expires_at > caller.at
    )
    if not is_current or McpSession.objects.filter(pk=session.key).exists():
        raise SessionNotFound
    return session


def end(session: CheckedSession) -> None:
    """End the session in all processes."""
    row = {
        "identity_id": session.claims.identity_id,
        "ended_at": session.checked_at,
        "expires_at": session.expires_at,
    }
    McpSession.objects.get_or_create(pk=session.key, defaults=row)


def remove_expired() -> None:
    """Delete the rows of sessions whose ids are too old by a day, and counts of past minutes."""
    now = clock.database_now()
    McpSession.objects.filter(expires_at__lt=now - KEEP_ROWS_FOR).delete()
    SessionStartCount.objects.filter(minute__lt=now - KEEP_COUNTS_FOR).delete()


def _count_start(caller: callers.AuthenticatedCaller) -> None:
    minute = caller.at.astimezone(UTC).replace(second=0, microsecond=0)
    columns = SessionStartCount._meta.concrete_fields
    values = (uuid7(), caller.identity.pk, minute, 1)
    with transaction.atomic(), connection.cursor() as cursor:
        prepared = [field.get_db_prep_save(value, connection) for field, value in zip(columns, values, strict=True)]
        cursor.execute(COUNT_START, prepared)
        [(total,)] = cursor.fetchall()
    if total > MAX_STARTS_PER_MINUTE:
        message = f"At most {MAX_STARTS_PER_MINUTE} sessions a minute are started. Use one session for many requests."
        raise RateLimited(message, retry_after=60 - caller.at.second)
