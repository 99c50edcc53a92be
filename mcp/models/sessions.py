"""What is remembered about sessions of MCP clients. The session ids themselves are signed and need no row."""

from django.db import models

from common.ids import uuid7


class McpSession(models.Model):
    """Marks a session that its client ended, so that its id is refused until it expires. Open sessions have no row.

    There is no foreign key: identities are never deleted, and the row must not wait for the identity's row.
    """

    #: SHA-256 of the session id, in hexadecimal. The id itself is not stored.
    key = models.CharField(max_length=64, primary_key=True, editable=False)
    identity_id = models.UUIDField(editable=False)
    ended_at = models.DateTimeField(editable=False)
    #: When the session id is too old. Until then an ended session must not be forgotten.
    expires_at = models.DateTimeField(editable=False)

    class Meta:
        db_table = "mcp_session"
        default_permissions = ()
        indexes = [models.Index(fields=["expires_at"], name="mcp_session_by_expiry")]

    def __str__(self) -> str:
        return self.key[:8]


class SessionStartCount(models.Model):
    """The number of sessions that one identity started in one minute, over all processes."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    identity_id = models.UUIDField()
    minute = models.DateTimeField()
    total = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "mcp_session_start_count"
        default_permissions = ()
        constraints = [models.UniqueConstraint("identity_id", "minute", name="mcp_session_start_count_once")]
        indexes = [models.Index(fields=["minute"], name="mcp_session_start_by_minute")]

    def __str__(self) -> str:
        return f"{self.total} at {self.minute:%H:%M}"
