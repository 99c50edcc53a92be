"""Tasks: sending one, looking for them, reading one, cancelling it."""

from functools import partial
from typing import Any
from uuid import UUID

from a2a import callback_urls, cancelling, sending, tallies
from a2a.api.base import TasksView
from a2a.api.shapes import tasks as shapes
from a2a.models import Task
from a2a.models.whose import WhoseQuerySet
from a2a.sending import Wish
from common.api.operations import listing, operation
from common.api.pagination import Counted
from common.fastsql.compiled_queries import PreparedQuery
from nhi.authorization import oauth
from nhi.models import Identity
from supervisor.access import Caller

KEY = "Idempotency-Key"
_TARGET = PreparedQuery(lambda pk: Identity.objects.filter(pk=pk).select_related("endpoint").order_by(), pk=UUID)


class Tasks(TasksView):
    narrowed = frozenset({"POST"})

    @listing(gives=shapes.TaskItem, filters=shapes.TaskFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List tasks

        Newest first: those you sent, those for you, and those of identities that you manage; all of them for console
        roles."""
        word = asked.pop("state", None)

        def narrowed(tasks: WhoseQuerySet[Any]) -> WhoseQuerySet[Any]:
            seen = tasks.visible_to(self.actor).filter(**asked)
            return seen.said_to_be(word) if word else seen

        rows = narrowed(Task.objects.all()).defer("input", "metadata", "allowed_by", "chain")
        return Counted(rows, partial(tallies.total, narrowed, run_id=self.actor.run_id))

    @operation(takes=shapes.NewTask, gives=shapes.CreatedShape, status=201, refusals=(404, 409, 429))
    def post(self, given: dict[str, Any]) -> Task:
        """Send a task

        Answers at once; the agent takes it when it can. For identities with a grant for the agent (403 with the
        decision's reason, 404 for an agent that was never yours to call, 429 where the grant's hour is used up); for
        people who own it, were given it, or hold the right to send to any. With an `Idempotency-Key`, sending the same
        again within a day answers with the same task, and another body with the same key is 409."""
        if given.get("callback_url") is not None:
            callback_urls.look_up(given["callback_url"])
        target = _TARGET.fetch_first(pk=given.pop("target_agent_id"))
        wish = Wish(message=sending.of_input(given.pop("input")), **given)
        key = self.request.headers.get(KEY)
        if key is None:
            return sending.send(caller=self._by, target=target, wish=wish)
        # What takes long in a large one is done before the transaction around the key.
        _ = wish.shown
        send = partial(sending.send, caller=self._by, target=target, wish=wish)
        return sending.once(caller=self._by, key=key, body=self.request.data, sending=send)

    @property
    def _by(self) -> Caller:
        loaded = self.caller.loaded
        return Caller(self.actor, self.caller.shown, oauth.rest_resource(), loaded.identity if loaded else None)


class OfTask(TasksView):
    task: Task

    def find(self, **path: UUID) -> None:
        self.task = self.visible(Task.objects.all(), path["task_id"])


class OneTask(OfTask):
    @operation(gives=shapes.TaskShape)
    def get(self) -> Task:
        """Read a task"""
        return self.task


class Cancel(OfTask):
    @operation(takes=shapes.WhyTaskCancelled, gives=shapes.CancelledShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Cancel a task

        And with it the tasks that were sent within it. For who sent it, those who manage its agent or its sender, and
        the right to cancel any. 409 for one that has ended."""
        return cancelling.cancel(actor=self.actor, task=self.task, reason=given.get("reason", ""))
