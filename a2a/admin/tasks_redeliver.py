"""Redelivering what was told of one task and not heard: all of it at once, from the task's own page."""

from typing import Any

from django.db.models import QuerySet
from django.urls import path

from a2a.admin import deliveries_bulk
from a2a.admin.deliveries_filters import UNHEARD, by_state
from a2a.admin.tasks_hub import OfTask


class Redeliver(OfTask, deliveries_bulk.Redeliver):
    def picked(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return by_state(rows.filter(task_id=self.task.pk), UNHEARD)

    def context(self) -> dict[str, Any]:
        nothing = "" if self.chosen else f"Nothing that was told of the {self.task} was given up."
        return {**super().context(), "title": f"{self.title}, of {self.task.short_id}", "impossible": nothing}

    def back(self) -> str:
        return self.url("deliveries")


URLS = [path("<uuid:pk>/redeliver/", Redeliver.as_view(), name="a2a_task_redeliver")]
