"""Upstream servers and their secrets."""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import ExpressionWrapper, Q, Value
from django.utils import timezone

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from mcp.choices import SEED_WORDS, Connection, Transport
from nhi.models import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


class ServerQuerySet(NonDeletableQuerySet["Server"]):
    """Servers. An actor who sees a server does not always see its configuration."""

    def visible_to(self, actor: "Actor") -> "ServerQuerySet":
        """All servers for actors with `view_server`; for other people, those that they own or whose tools they see."""
        if actor.may("mcp.view_server"):
            return self
        if not actor.is_person:
            return self.none()
        visible_identities = Identity.objects.visible_to(actor).values("pk")
        return self.filter(Q(owner_id=actor.id) | Q(tools__in=visible_identities)).distinct()

    def with_configuration_for(self, actor: "Actor") -> "ServerQuerySet":
        """Annotate each server with `shows_configuration`: whether this actor may see the server's configuration."""
        if actor.may("mcp.view_server"):
            return self.annotate(shows_configuration=Value(True))
        is_owner = Q(owner_id=actor.id) if actor.is_person else Q(pk=None)
        return self.annotate(shows_configuration=ExpressionWrapper(is_owner, models.BooleanField()))

    def enabled(self) -> "ServerQuerySet":
        return self.filter(enabled=True)


class Server(NonDeletableModel):
    """An upstream server: its configuration and its connection status."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    description = models.CharField(max_length=1000, blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="owned_servers")
    transport = models.CharField(max_length=8, choices=Transport)
    command = models.CharField(max_length=1000, blank=True)
    args = models.JSONField(default=list, blank=True)
    env = models.JSONField(default=dict, blank=True)
    base_url = models.CharField(max_length=2000, blank=True)
    headers = models.JSONField(default=dict, blank=True)
    #: The maximum duration of a call, in seconds.
    timeout = models.FloatField(default=30.0)
    #: The capabilities that people configured. The server's own list is in `server_capabilities`.
    capabilities = models.JSONField(default=list, blank=True)
    schema_version = models.CharField(max_length=32, blank=True)
    enabled = models.BooleanField(default=True, editable=False)
    #: Incremented with every change of the connection settings, so that no connection outlives a change.
    revision = models.PositiveIntegerField(default=1, editable=False)
    #: The last person who changed the connection settings. This person may not approve the resulting definitions.
    changed_by_id = models.UUIDField(null=True, editable=False)
    changed_by_name = models.CharField(max_length=192, blank=True, editable=False)
    #: The time of that change; empty while the connection settings are those of the registration.
    changed_at = models.DateTimeField(null=True, editable=False)

    status = models.CharField(max_length=16, choices=Connection, default=Connection.OFFLINE, editable=False)
    status_since = models.DateTimeField(default=timezone.now, editable=False)
    status_reason = models.CharField(max_length=500, default="It was not tried yet.", editable=False)
    #: Faults since the last success.
    faults = models.PositiveIntegerField(default=0, editable=False)
    era = models.CharField(max_length=8, blank=True, editable=False)
    protocol_version = models.CharField(max_length=16, blank=True, editable=False)
    server_info = models.JSONField(default=dict, editable=False)
    server_capabilities = models.JSONField(default=list, editable=False)
    instructions = models.TextField(blank=True, editable=False)
    handshake_latency_ms = models.FloatField(null=True, editable=False)
    #: Seconds from the first byte sent to the list of tools.
    initialization_time = models.FloatField(null=True, editable=False)
    #: The time of the last successful check.
    last_health_check = models.DateTimeField(null=True, editable=False)
    last_checked_at = models.DateTimeField(null=True, editable=False)
    last_refreshed_at = models.DateTimeField(null=True, editable=False)
    #: The time of the last `tools/list` request, successful or not.
    refresh_tried_at = models.DateTimeField(null=True, editable=False)
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    #: The redacted steps of the last handshake: requests and answers.
    last_handshake = models.JSONField(default=list, editable=False)

    created_by_id = models.UUIDField(null=True, editable=False)
    created_by_name = models.CharField(max_length=192, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ServerQuerySet.as_manager()

    class Meta:
        db_table = "mcp_server"
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(transport__in=Transport.values), name="mcp_server_transport"),
            models.CheckConstraint(condition=Q(status__in=Connection.values), name="mcp_server_status"),
            models.CheckConstraint(
                condition=(Q(transport=Transport.STDIO) & ~Q(command="") & Q(base_url=""))
                | (~Q(transport=Transport.STDIO) & Q(command="") & ~Q(base_url="")),
                name="mcp_server_is_reached_one_way",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def connection_state(self) -> str:
        """The status in the terms of seed 004."""
        return SEED_WORDS[Connection(self.status)]

    @property
    def identity(self) -> dict[str, Any]:
        """The connection settings, which are pinned with each tool. Secrets are represented by row ids, not values."""
        return {
            "name": self.name,
            "transport": self.transport,
            "command": self.command,
            "args": self.args,
            "env": self.env,
            "base_url": self.base_url,
            "headers": self.headers,
            "secrets": {secret.name: str(secret.pk) for secret in self.secrets.all()},
        }


class ServerSecret(models.Model):
    """The value of `${NAME}` in this server's environment and headers. It can be replaced but is never shown."""

    #: A new value is a new row with a new id, so that definitions pinned with the old value count as changed.
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="secrets")
    name = models.CharField(max_length=100)
    sealed = models.TextField(editable=False)
    set_at = models.DateTimeField(default=timezone.now, editable=False)
    set_by_name = models.CharField(max_length=192, editable=False)

    class Meta:
        db_table = "mcp_server_secret"
        ordering = ["name"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("server", "name", name="mcp_server_secret_once")]

    def __str__(self) -> str:
        return self.name
