"""The inbox of an agent that takes its tasks itself."""

from typing import Any
from uuid import UUID

from a2a import inbox
from a2a.api.base import TasksView
from a2a.api.shapes import inbox as shapes
from a2a.api.waiting import offer_of
from a2a.inbox import Claimed
from a2a.models import Task
from common.api.operations import listing, operation
from common.errors import NotFound
from common.fastsql.compiled_queries import PreparedQuery
from nhi.authorization.access_precheck import CallerNotIdentity

_MINE = PreparedQuery(
    lambda task, agent: Task.objects.filter(pk=task, agent_id=agent).only("pk").order_by(), task=UUID, agent=UUID
)


NOT_PEOPLE = "Only an agent has an inbox: its workers show a credential of the agent."


class Inbox(TasksView):
    @listing(gives=shapes.OfferedShape, filters=shapes.InboxFilters, key="tasks")
    def get(self, asked: dict[str, Any]) -> Any:
        """List the tasks that wait for you

        For agents: what nobody works on, the oldest first. A task whose lease has ended is there again. With `wait`, an
        empty inbox is answered as soon as a task comes, or after so many seconds."""
        seconds = asked.pop("wait")
        # The inbox of a run stays empty: to wait there would take the turn of a worker.
        if self.actor.run_id is None and (offer := offer_of(self.request)):
            offer.take(self.actor.id, seconds)
        return inbox.waiting(self.actor)


class ClaimNext(TasksView):
    @operation(takes=shapes.ClaimNext, gives=shapes.ClaimedTasksShape, name="a2a_inbox_claim_next")
    def post(self, given: dict[str, Any]) -> dict[str, list[Claimed]]:
        """Take the next tasks

        For agents: the oldest that nobody works on, as many as `limit` says, none of which any other worker is given;
        an empty list when there are none. With `wait`, that is answered as soon as a task comes, or after so many
        seconds. What was taken by a worker that never heard of it is offered again when its lease has ended."""
        if self.actor.is_person:
            raise CallerNotIdentity(NOT_PEOPLE)
        self.actor.refuse_run("take the next task of an inbox")
        seconds = given.pop("wait")
        taken = inbox.claim_next(actor=self.actor, **given)
        if not taken and (offer := offer_of(self.request)):
            offer.take(self.actor.id, seconds)
        return {"tasks": taken}


class OfMyTask(TasksView):
    """A task that is the caller's own to work on; of all others nothing is told."""

    task: Task

    def find(self, **path: UUID) -> None:
        run_id = self.actor.run_id
        found = _MINE.fetch_first(task=path["task_id"], agent=self.actor.id)
        if found is not None and run_id is not None:
            found = Task.objects.within_run(run_id).filter(pk=found.pk).only("pk").first()
        if found is None:
            raise NotFound
        self.task = found


class Claim(OfMyTask):
    @operation(takes=shapes.Claim, gives=shapes.ClaimedShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Claimed:
        """Take a task

        It is yours until `lease_until`; after that another may take it. 409 while somebody else has it, and for one
        that has ended."""
        return inbox.claim(task=self.task, lease_seconds=given["lease_seconds"])


class Heartbeat(OfMyTask):
    @operation(takes=shapes.Leased, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Keep a task

        For as long again as it was taken for. 409 when it is not yours any more: stop working on it."""
        return inbox.heartbeat(task=self.task, **given)


class Progress(OfMyTask):
    @operation(takes=shapes.Progress, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Say how a task goes

        Whoever follows it hears that; and it is kept, as by a heartbeat."""
        return inbox.progress(task=self.task, **given)


class Make(OfMyTask):
    @operation(takes=shapes.Made, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Hand over what was made

        Or a piece of it, before the task is complete. Whoever follows the task has it at once; and it is kept, as by a
        heartbeat."""
        return inbox.make(task=self.task, **given)


class Ask(OfMyTask):
    @operation(takes=shapes.Ask, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Ask the caller something

        The lease ends with it. Once the caller has answered, over A2A, the task is in the inbox again; claiming it
        gives the answer as its `message`, and in its `history`."""
        return inbox.ask(task=self.task, **given)


class Answer(OfMyTask):
    @operation(takes=shapes.Answer, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Answer with a message

        In place of a result: whoever waits for it over A2A is given just the message. The task is completed."""
        return inbox.answer(task=self.task, lease_token=given["lease_token"], message=given["parts"])


class Reject(OfMyTask):
    @operation(takes=shapes.Reject, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Decline a task

        It ends as rejected, which the REST contract calls failed with the error code `rejected`."""
        return inbox.reject(task=self.task, **given)


class Complete(OfMyTask):
    @operation(takes=shapes.Complete, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Complete a task

        409 when it is not yours any more, or has ended: then nothing was changed."""
        return inbox.complete(task=self.task, **given)


class Fail(OfMyTask):
    @operation(takes=shapes.Fail, gives=shapes.StandingShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Task:
        """Give a task up

        It ends as failed, with what is said here."""
        return inbox.fail(task=self.task, **given)
