"""Questions about access and their answers."""

from typing import Any

from common.api.fields import Identifier, Mapping, Moment, Text, Texts, Word
from common.api.shapes import Input, Shape
from nhi.api.shapes import examples
from nhi.authorization.explain import Explanation
from nhi.choices import Verdict
from nhi.decisions.types import Decision


class Wish(Input):
    target_id = Identifier(help_text="A tool or an agent.")
    parameters = Mapping(required=False, help_text="What the call would be made with.")
    action = Text(required=False, help_text="The task type or tool name, where a grant allows only some.")
    task_id = Identifier(required=False, help_text="As if it were asked within this task, which the caller works on.")

    example = {"target_id": examples.CREATE_ISSUE, "parameters": {"repo": "acme/site"}}


class Question(Wish):
    caller_id = Identifier()
    at = Moment(required=False, help_text="A time to come; now when it is left out.")

    example = {
        "caller_id": examples.DEPLOY_BOT,
        "target_id": examples.CREATE_ISSUE,
        "parameters": {"repo": "acme/site"},
    }


class DecisionShape(Shape):
    decision = Word(choices=Verdict.values, source="verdict")
    reason = Text(help_text="A stable code.")
    decision_id = Identifier(source="id")

    example = {"decision": "deny", "reason": "no_grant", "decision_id": examples.DECISION}


class DecidedBy(Shape):
    kind = Word(choices=["grant", "role", "check"])
    id = Identifier(allow_null=True)
    name = Text()


class CheckShape(Shape):
    check = Text(source="name")
    verdict = Word(choices=["pass", "fail", "skip"], source="outcome")
    reason = Text()
    message = Text()


class ExplanationShape(Shape):
    decision = Word(choices=Verdict.values)
    reason = Text()
    message = Text()
    decision_id = Identifier()
    decided_by = DecidedBy()
    checks = CheckShape(many=True)
    would_pass = Texts(help_text="What would make each failing check pass.")
    warnings = Texts(help_text="Limits of a grant that a role beside it makes void.")

    example = {
        "decision": "deny",
        "reason": "no_grant",
        "message": "deploy-bot has no grant for github__delete_repo and no role that covers it.",
        "decision_id": examples.DECISION,
        "decided_by": {"kind": "check", "id": None, "name": "access"},
        "checks": [
            {
                "check": "caller",
                "verdict": "pass",
                "reason": "",
                "message": "deploy-bot is active and has not expired.",
            },
            {
                "check": "access",
                "verdict": "fail",
                "reason": "no_grant",
                "message": "deploy-bot has no grant for github__delete_repo and no role that covers it.",
            },
        ],
        "would_pass": ["Give deploy-bot access to github__delete_repo, or a role that covers it."],
        "warnings": [],
    }

    def to_representation(self, instance: Explanation) -> dict[str, Any]:
        decision: Decision = instance.decision
        kind, pk, name = instance.decided_by
        return {
            **DecisionShape(decision).data,
            "message": decision.message,
            "decided_by": {"kind": kind, "id": str(pk) if pk else None, "name": name},
            "checks": CheckShape(instance.checks, many=True).data,
            "would_pass": list(instance.would_pass),
            "warnings": list(instance.warnings),
        }
