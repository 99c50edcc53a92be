"""Asking: an identity for itself, a person about two identities."""

from typing import Any

from common.api.operations import operation
from nhi.api.shapes.decisions import DecisionShape, ExplanationShape, Question, Wish
from nhi.api.views import ApiView
from nhi.authorization import access_precheck, explain, oauth
from nhi.authorization.explain import Explanation
from nhi.decisions.types import Decision


class Check(ApiView):
    #: Its verb writes what was asked.
    opens = False

    @operation(takes=Wish, gives=DecisionShape, reads=True)
    def post(self, given: dict[str, Any]) -> Decision:
        """Ask whether the caller may call a target

        Decided like a call, on record, and free of charge. For identities: people get a 403 and use explain. A target
        that does not exist and one that was never held get the same answer, `no_grant`."""
        return access_precheck.check(
            actor=self.actor,
            token=self.caller.shown,
            audience=oauth.rest_resource(),
            target_id=given["target_id"],
            parameters=given.get("parameters"),
            action=given.get("action"),
            task_id=given.get("task_id"),
        )


class Explain(ApiView):
    @operation(takes=Question, gives=ExplanationShape, reads=True, refusals=(404,))
    def post(self, given: dict[str, Any]) -> Explanation:
        """Explain why a caller may or may not call a target

        Every check in its order with its verdict, and what would make it pass. Who cannot see both of them gets a
        404."""
        return explain.explain(actor=self.actor, **given)
