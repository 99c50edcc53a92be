"""How many tasks have ended, by whose they are and how they ended."""

from typing import Any
from uuid import UUID, uuid5

from django.db import models
from django.db.models import Q

from a2a.models.whose import WhoseQuerySet

#: What a list of tasks is narrowed by, and what decides who sees them.
KEY = ("agent_id", "source_id", "created_by_id", "state")
_SPACE = UUID("5b1f3a0e-6c1d-4a55-9f57-3d0c8a1e7b42")


class TallyQuerySet(WhoseQuerySet["Tally"]):
    def _of_run(self, run_id: UUID) -> Q:  # noqa: ARG002 - no tally knows of runs
        return Q(pk__in=())


class Tally(models.Model):
    """Of all tasks with these four that are marked as tallied. Kept by `a2a.tallies`.

    Plain ids: a reference would lock the identities whose tasks are added up.
    """

    #: Made of the four, since a database may take two rows without a caller for different ones.
    id = models.UUIDField(primary_key=True, editable=False)
    agent_id = models.UUIDField()
    source_id = models.UUIDField(null=True)
    created_by_id = models.UUIDField(null=True)
    state = models.CharField(max_length=16)
    tasks = models.PositiveBigIntegerField(default=0)

    objects = TallyQuerySet.as_manager()

    class Meta:
        db_table = "a2a_task_tally"
        default_permissions = ()
        indexes = [
            models.Index(fields=["agent_id"], name="a2a_tally_by_agent"),
            models.Index(fields=["source_id"], name="a2a_tally_by_source"),
            models.Index(fields=["created_by_id"], name="a2a_tally_by_creator"),
        ]

    def __str__(self) -> str:
        return f"{self.tasks} {self.state} for {self.agent_id}"

    @classmethod
    def of(cls, *key: Any) -> "Tally":
        """The row of these four, as it begins."""
        return cls(pk=uuid5(_SPACE, " ".join(map(str, key))), **dict(zip(KEY, key, strict=True)))
