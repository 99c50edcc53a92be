"""Whose tasks they are and how they stand: asked of tasks one by one, and of their tallies, in the same words."""

from typing import TYPE_CHECKING, Self, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Q

from a2a.choices import states_of
from common.db.querysets import NonDeletableQuerySet
from nhi.models import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor

M = TypeVar("M", bound=models.Model)


class WhoseQuerySet(NonDeletableQuerySet[M]):
    """Of a table with `agent_id`, `source_id`, `created_by_id` and `state`."""

    def visible_to(self, actor: "Actor") -> Self:
        """All for who reads them; else those one asked for, those one is asked, and those of identities one handles."""
        if actor.may("a2a.view_task"):
            return self
        if not actor.is_person:
            return self.about(actor.id).within_run(actor.run_id)
        handled = Identity.objects.managed_by(actor).values("pk")
        return self.filter(Q(created_by_id=actor.id) | Q(source_id__in=handled) | Q(agent_id__in=handled))

    def about(self, identity_id: UUID | None) -> Self:
        """Those that an identity asked for, and those that it is asked."""
        return self.filter(Q(created_by_id=identity_id) | Q(source_id=identity_id) | Q(agent_id=identity_id))

    def held_by(self, actor: "Actor") -> Self:
        """Those that the actor asked for: its to follow up and to cancel."""
        return self.filter(Q(source_id=actor.id) | Q(source_id=None, created_by_id=actor.id)).within_run(actor.run_id)

    def within_run(self, run_id: UUID | None) -> Self:
        """All of them where no run acts; else the run's own task, the tasks below it, and those that the run sent."""
        return self if run_id is None else self.filter(self._of_run(run_id))

    def _of_run(self, run_id: UUID) -> Q:
        raise NotImplementedError

    def said_to_be(self, word: str) -> Self:
        return self.filter(state__in=states_of(word))
