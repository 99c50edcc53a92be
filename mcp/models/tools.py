"""The tools that servers offer, and every definition of them that was ever seen."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.utils import timezone

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from mcp.choices import DefinitionState
from mcp.models.servers import Server
from nhi.models import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


class ToolQuerySet(NonDeletableQuerySet["Tool"]):
    def visible_to(self, actor: "Actor") -> "ToolQuerySet":
        if actor.may("mcp.view_tool"):
            return self
        return self.filter(identity__in=Identity.objects.visible_to(actor).values("pk"))

    def in_state(self, *states: DefinitionState) -> "ToolQuerySet":
        return self.filter(state__in=states)


class Tool(NonDeletableModel):
    """What stands behind a tool's identity: its server, and the definition that was approved for it."""

    identity = models.OneToOneField(Identity, on_delete=models.PROTECT, primary_key=True, related_name="tool")
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="tools")
    #: As the server calls it.
    name = models.CharField(max_length=128)
    state = models.CharField(max_length=16, choices=DefinitionState, default=DefinitionState.PENDING, editable=False)
    state_since = models.DateTimeField(default=timezone.now, editable=False)
    #: What a call is decided by; empty until somebody approves the first one.
    approved = models.ForeignKey(
        "ToolDefinition", on_delete=models.PROTECT, null=True, related_name="+", editable=False
    )
    #: What the server said last.
    current = models.ForeignKey("ToolDefinition", on_delete=models.PROTECT, null=True, related_name="+", editable=False)
    #: Each call waits for a person, whoever makes it.
    requires_approval = models.BooleanField(default=False)
    deprecated = models.BooleanField(default=False)
    tags = models.JSONField(default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    first_seen_at = models.DateTimeField(default=timezone.now, editable=False)
    last_seen_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = ToolQuerySet.as_manager()

    class Meta:
        db_table = "mcp_tool"
        ordering = ["server__name", "name"]
        constraints = [
            models.UniqueConstraint("server", "name", name="mcp_tool_once"),
            models.CheckConstraint(condition=Q(state__in=DefinitionState.values), name="mcp_tool_state"),
            models.CheckConstraint(
                condition=~Q(state=DefinitionState.APPROVED) | Q(approved__isnull=False),
                name="mcp_tool_approved_has_definition",
            ),
        ]
        indexes = [models.Index(fields=["state", "server"], name="mcp_tool_by_state")]

    def __str__(self) -> str:
        return f"{self.server}__{self.name}"


class ToolDefinition(NonDeletableModel):
    """One version of what a server says of a tool, with the server as it was reached then. Pinned by its hash."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="definitions")
    number = models.PositiveIntegerField()
    hash = models.CharField(max_length=64)
    #: {name, title, description, inputSchema, outputSchema, annotations, icons, _meta, server, capability}
    body = models.JSONField()
    #: Whether our own checker can check arguments against its input schema; the server checks them in any case.
    checkable = models.BooleanField(default=False)
    #: What a person should look at twice: [{kind, place, message}].
    flags = models.JSONField(default=list)
    #: The rules and the names of other servers' objects that the flags come from; others by now, they are found anew.
    flagged_by = models.CharField(max_length=64, blank=True, default="")
    seen_at = models.DateTimeField(default=timezone.now)
    #: The person whose change made this version; empty when it was the server itself.
    changed_by_id = models.UUIDField(null=True)
    changed_by_name = models.CharField(max_length=192, blank=True)
    approved_at = models.DateTimeField(null=True)
    approved_by_id = models.UUIDField(null=True)
    approved_by_name = models.CharField(max_length=192, blank=True)
    approve_reason = models.CharField(max_length=500, blank=True)
    #: Whoever added the server approved this, its first definition.
    self_approved = models.BooleanField(default=False)

    class Meta:
        db_table = "mcp_tool_definition"
        ordering = ["-number"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("tool", "hash", name="mcp_tool_definition_once"),
            models.UniqueConstraint("tool", "number", name="mcp_tool_definition_number"),
        ]

    def __str__(self) -> str:
        return f"v{self.number}"


class PendingChange(models.Model):
    """What a person has changed about a tool since its definition was approved: their part in what waits."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="pending_changes")
    #: `capability`, or a part of how the server is reached: `base_url`, `headers.X-Team`, `secrets.KEY`.
    place = models.CharField(max_length=300)
    changed_by_id = models.UUIDField()
    changed_by_name = models.CharField(max_length=192)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "mcp_pending_change"
        ordering = ["changed_at", "id"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["tool", "place", "changed_by_id"], name="mcp_pending_change_once"),
        ]
        indexes = [models.Index(fields=["changed_by_id", "tool"], name="mcp_pending_change_by_whom")]

    def __str__(self) -> str:
        return f"{self.place} by {self.changed_by_name}"
