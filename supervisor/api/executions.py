"""Runs: looking for them, reading one, waiting for it, following it, stopping it."""

from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Case, Count, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce, Left
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from common.api.operations import Media, listing, operation, reading
from common.errors import InvalidInput
from nhi.actors import Actor
from nhi.api.views import ApiView
from supervisor import cancelling
from supervisor.api import events, following, outcomes
from supervisor.api.shapes import executions as shapes
from supervisor.choices import ExecutionState, Stream
from supervisor.models import Execution
from supervisor.models.executions import UNDER_WAY

LONGEST_WAIT = 300.0
TEXT = Media("text/plain", "Lines: 1\nWords: 3\n")
SHOWN_IN_LIST = 1000
#: Of the same agent, and asked for before.
_BEFORE = (
    Execution.objects.queued()
    .filter(agent=OuterRef("agent"))
    .filter(Q(created_at__lt=OuterRef("created_at")) | Q(created_at=OuterRef("created_at"), id__lt=OuterRef("id")))
    .order_by()
    .values("agent")
    .annotate(runs=Count("pk"))
    .values("runs")
)
ROWS = Execution.objects.select_related("usage").annotate(
    queue_position=Case(When(state=ExecutionState.QUEUED, then=Coalesce(Subquery(_BEFORE), 0)))
)


def for_reader(actor: Actor) -> Any:
    """Rows that know whether an identity reads them: it gets no text that is an operator's."""
    if actor.reads_operator_text:
        return ROWS
    return ROWS.annotate(to_identity=Value(True, BooleanField()), agent_kind=F("agent__kind"))


class Executions(ApiView):
    @listing(gives=shapes.ExecutionItem, filters=shapes.ExecutionFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List runs

        Newest first: those you asked for and those of agents whose identities you manage; all of them for console
        roles. An identity sees those that it asked for and its own."""
        active, state = asked.pop("active", None), asked.pop("state", None)
        rows = for_reader(self.actor).visible_to(self.actor).filter(**asked)
        if state is not None:
            rows = rows.said_to_be(state)
        if active is not None:
            rows = rows.active() if active else rows.exclude(state__in=UNDER_WAY)
        return rows.defer("input", "sealed_input", "usage__samples").annotate(beginning=Left("input", SHOWN_IN_LIST))


class OfExecution(ApiView):
    execution: Execution

    def find(self, **path: UUID) -> None:
        rows = for_reader(self.actor).select_related("result").prefetch_related("transitions", "attempts")
        self.execution = self.visible(rows, path["execution_id"])

    def fresh(self) -> Execution:
        """With what a verb has written beside the row."""
        self.find(execution_id=self.execution.pk)
        return self.execution


class OneExecution(OfExecution):
    @operation(gives=shapes.ExecutionShape)
    def get(self) -> Execution:
        """Read a run

        With its result once it is done, every move from state to state, and the attempts that were followed by
        another."""
        return self.execution

    @operation(gives=shapes.ExecutionShape, refusals=(409,))
    def delete(self) -> Execution:
        """Stop a run

        The same as `cancel`: the run stays on record."""
        cancelling.cancel(actor=self.actor, execution=self.execution, reason=shapes.CANCELLED)
        return self.fresh()


class Cancel(OfExecution):
    @operation(takes=shapes.WhyCancelled, gives=shapes.ExecutionShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Execution:
        """Stop a run

        One that waits ends at once. Of one that runs, all processes are asked to end and 5 seconds later ended; follow
        it to see that. 409 for a run that is done, or is being stopped already. For who asked for the run, its agent's
        identity, those who manage that, and the right to stop any."""
        cancelling.cancel(
            actor=self.actor, execution=self.execution, reason=given.get("reason") or shapes.CANCELLED
        )  # fmt: skip
        return self.fresh()


class Lasting(OfExecution):
    """What may take long. An auditor who stays is on record once, not each time that is looked again."""

    @property
    def offer(self) -> following.Offer | None:
        return following.offer_of(self.request)

    def _on_record(self, request: Request, response: Response) -> Response:
        again = self.offer is not None and self.offer.again
        return response if again else super()._on_record(request, response)


class Wait(Lasting):
    @reading(gives=shapes.ExecutionShape, filters=shapes.Waiting)
    def get(self, asked: dict[str, Any]) -> Execution:
        """Wait for a run

        Answers as soon as it is done and its place is free, or after `timeout` with what there is then; `status` tells
        which."""
        run, offer = self.execution, self.offer
        if offer is not None and not offer.again and not events.is_over(run.state, run.status):
            offer.taken = following.Wait(run.pk, min(asked["timeout"], LONGEST_WAIT))
        return run


class Output(Lasting):
    def find(self, **path: UUID) -> None:
        self.execution = self.visible(Execution.objects.all(), path["execution_id"])

    @reading(
        gives=shapes.ExecutionShape, filters=shapes.Following, media=(events.STREAM, TEXT), refusals=(429,)
    )  # fmt: skip
    def get(self, asked: dict[str, Any]) -> HttpResponse:
        """Follow a run's output

        Server-sent events: `output` for each piece, with its `seq` as id; `state` for each move; a comment at least
        every 15 seconds; `end` when the run is over and everything was sent. `Last-Event-ID` or `after` goes on behind
        a piece. A caller may follow 32 runs at once in each web process. With `format=text` what was written by now,
        as text."""
        if asked["format"] == "text":
            streams = outcomes.BOTH if asked["stream"] == "all" else [Stream(asked["stream"])]
            return HttpResponse(outcomes.written(self.execution, streams), content_type="text/plain; charset=utf-8")
        return self._events(self._after(asked["after"]))

    def _events(self, after: int) -> HttpResponse:
        answer = HttpResponse(content_type=events.TYPE, headers={"X-Accel-Buffering": "no"})
        if self.offer is None:
            answer.content = "".join(events.so_far(self.execution.pk, after))
        elif self.offer.crowded:
            raise following.TooManyStreams
        else:
            self.offer.taken = following.Output(self.execution.pk, after, self.actor.id)
        return answer

    def _after(self, asked: int) -> int:
        """A browser that connects again says it in a header."""
        said = self.request.headers.get("Last-Event-ID", "")
        if not said:
            return asked
        if not (said.isascii() and said.isdigit() and len(said) < 10):
            raise InvalidInput.for_field("Last-Event-ID", "Send the `seq` of the last event that is known.")
        return int(said)
