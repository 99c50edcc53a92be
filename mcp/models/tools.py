"""Tools of servers, and all versions of their definitions."""

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
    """Tools. Actors without the view right see the tools whose identities they see."""

    def visible_to(self, actor: "Actor") -> "ToolQuerySet":
        if actor.may("mcp.view_tool"):
            return self
        return self.filter(identity__in=Identity.objects.visible_to(actor).values("pk"))

    def in_state(self, *states: DefinitionState) -> "ToolQuerySet":
        return self.filter(state__in=states)


class Tool(NonDeletableModel):
    """A tool of a server: its identity, its state, and its approved and latest definitions."""

    identity = models.OneToOneField(Identity, on_delete=models.PROTECT, primary_key=True, related_name="tool")
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="tools")
    #: The name that the server uses.
    name = models.CharField(max_length=128)
    state = models.CharField(max_length=16, choices=DefinitionState, default=DefinitionState.PENDING, editable=False)
    state_since = models.DateTimeField(default=timezone.now, editable=False)
    #: The definition that decides calls; null until the first approval.
    approved = models.ForeignKey(
        "ToolDefinition", on_delete=models.PROTECT, null=True, related_name="+", editable=False
    )
    #: The latest definition from the server.
    current = models.ForeignKey("ToolDefinition", on_delete=models.PROTECT, null=True, related_name="+", editable=False)
    #: Every call of the tool waits for a person's approval.
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
    """One version of a tool's definition, including the server's connection settings at that time. Pinned by hash."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="definitions")
    number = models.PositiveIntegerField()
    hash = models.CharField(max_length=64)
    #: {name, title, description, inputSchema, outputSchema, annotations, icons, _meta, server, capability}
    body = models.JSONField()
    #: Whether Gatehouse can check arguments against the input schema. The server checks them in any case.
    checkable = models.BooleanField(default=False)
    #: Warnings for reviewers: [{kind, place, message}].
    flags = models.JSONField(default=list)
    #: Digest of the rules and object names that produced the flags. When these change, the flags are computed again.
    flagged_by = models.CharField(max_length=64, blank=True, default="")
    seen_at = models.DateTimeField(default=timezone.now)
    #: The person whose change created this version; empty when the server changed the definition.
    changed_by_id = models.UUIDField(null=True)
    changed_by_name = models.CharField(max_length=192, blank=True)
    approved_at = models.DateTimeField(null=True)
    approved_by_id = models.UUIDField(null=True)
    approved_by_name = models.CharField(max_length=192, blank=True)
    approve_reason = models.CharField(max_length=500, blank=True)
    #: The approver of this first definition also added or configured the server.
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
    """A person's change to a tool since its last approval. It bars the person from approving the pending definition."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="pending_changes")
    #: `capability`, or one of the connection settings: `base_url`, `headers.X-Team`, `secrets.KEY`.
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
