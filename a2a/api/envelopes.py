"""Seed 001's envelope, and how things stand for who asks."""

from rest_framework.response import Response

from a2a.api.base import TasksView
from a2a.api.shapes.envelopes import EnvelopeGiven, EnvelopeShape, ReportShape
from a2a.api.tasks import KEY
from a2a.operations import letters
from a2a.operations.letters import Report
from common.api.operations import answering, operation
from nhi.authorization import oauth
from supervisor.access import Caller


class Envelope(TasksView):
    #: What is in it tells whether it sends.
    narrowed = frozenset({"POST"})

    @answering(takes=EnvelopeGiven, gives=EnvelopeShape, also={}, refusals=())
    def post(self) -> Response:
        """Send an envelope

        With the method `execute-agent`, whose result is a new task, or `status`, of a task or of what the caller has
        open. The answer is an envelope too, of type `error` where something was refused, with the protocol's codes; the
        HTTP status is 200 then as well. What is no JSON, or comes without a credential, is refused as everywhere here.
        `Idempotency-Key` counts for `execute-agent`."""
        caller = Caller(self.actor, self.caller.shown, oauth.rest_resource())
        key = self.request.headers.get(KEY)
        return Response(letters.answer(caller=caller, sent=self.request.data, idempotency_key=key))


class Status(TasksView):
    @operation(gives=ReportShape)
    def get(self) -> Report:
        """Read how A2A stands

        What is spoken here, and how many tasks that you sent are open."""
        return letters.report(self.actor)
