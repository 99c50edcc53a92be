"""What agents tell of themselves: a card each, and the skills on it. Who has no row is told of by the usual values."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.utils import timezone

from a2a.choices import CardForm
from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from nhi.models import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


class AgentCardQuerySet(NonDeletableQuerySet["AgentCard"]):
    def visible_to(self, actor: "Actor") -> "AgentCardQuerySet":
        return self.filter(identity__in=Identity.objects.visible_to(actor).values("pk"))


class AgentCard(NonDeletableModel):
    """What people say of an agent beside what its endpoint says by itself."""

    identity = models.OneToOneField(Identity, on_delete=models.PROTECT, primary_key=True, related_name="agent_card")
    version = models.CharField(max_length=50, default="1.0.0")
    #: Empty: the identity's own.
    description = models.CharField(max_length=1000, blank=True)
    provider_organization = models.CharField(max_length=200, blank=True)
    provider_url = models.CharField(max_length=500, blank=True)
    documentation_url = models.CharField(max_length=500, blank=True)
    icon_url = models.CharField(max_length=500, blank=True)
    #: Empty: what the endpoint takes.
    default_input_modes = models.JSONField(default=list)
    default_output_modes = models.JSONField(default=list)
    form = models.CharField(max_length=6, choices=CardForm, default=CardForm.MERGED)
    #: Of the card or a skill on it.
    updated_at = models.DateTimeField(default=timezone.now)

    objects = AgentCardQuerySet.as_manager()

    class Meta:
        db_table = "a2a_agent_card"
        ordering = ["identity"]
        constraints = [
            models.CheckConstraint(condition=Q(form__in=CardForm.values), name="a2a_agent_card_form"),
            models.CheckConstraint(
                condition=Q(provider_organization="", provider_url="")
                | (~Q(provider_organization="") & ~Q(provider_url="")),
                name="a2a_agent_card_provider",
            ),
        ]

    def __str__(self) -> str:
        return f"the card of {self.identity}"


class SkillQuerySet(models.QuerySet["Skill"]):
    def visible_to(self, actor: "Actor") -> "SkillQuerySet":
        return self.filter(identity__in=Identity.objects.visible_to(actor).values("pk"))


class Skill(models.Model):
    """One thing that an agent says it can do. All are written anew together; the record has the past."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    identity = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="card_skills")
    position = models.PositiveIntegerField()
    #: What callers name it by, often the type of a task.
    skill_id = models.CharField(max_length=100)
    name = models.CharField(max_length=200)
    description = models.CharField(max_length=1000, blank=True)
    tags = models.JSONField(default=list)
    examples = models.JSONField(default=list)
    #: Empty: those of the card.
    input_modes = models.JSONField(default=list)
    output_modes = models.JSONField(default=list)
    #: Whether it stands on the card that strangers read; else on the extended one only.
    public = models.BooleanField(default=True)

    objects = SkillQuerySet.as_manager()

    class Meta:
        db_table = "a2a_skill"
        ordering = ["identity", "position"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("identity", "skill_id", name="a2a_skill_once")]

    def __str__(self) -> str:
        return self.name
