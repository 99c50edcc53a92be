"""What an agent's own workers send and are given."""

from rest_framework import serializers

from a2a.api.shapes import tasks
from a2a.api.shapes.tasks import ChainLinkShape
from a2a.choices import Word
from common.api.fields import Identifier, Mapping, Moment, Text, Whole
from common.api.fields import Word as OneOf
from common.api.shapes import Input, Shape
from nhi.api.shapes import examples as story

TOKEN = "mC3v9Yq0sT5k"  # noqa: S105 - an example in the documentation
UNTIL = "2026-11-18T10:01:00.000000Z"


class OfferedShape(Shape):
    task_id = Identifier(source="id")
    source_agent_id = Identifier(source="source_id", allow_null=True)
    task_type = Text()
    created_at = Moment()
    deadline = Moment(allow_null=True)
    chain = ChainLinkShape(many=True)
    claims = Whole(help_text="How often it was taken before, and not brought back.")

    example = {
        "task_id": tasks.TASK,
        "source_agent_id": story.DEPLOY_BOT,
        "task_type": "summarise",
        "created_at": story.NOW,
        "deadline": None,
        "chain": [{"id": story.DEPLOY_BOT, "name": "deploy-bot"}],
        "claims": 0,
    }


class Claim(Input):
    lease_seconds = Whole(default=60, help_text="1 to 3600; a heartbeat lends it for as long again.")

    example = {"lease_seconds": 60}


class ClaimedShape(Shape):
    task_id = Identifier(source="task.id")
    lease_token = Text(help_text="Shown once; the one who claims the task after the lease has ended gets another.")
    lease_until = Moment(source="task.lease_until")
    input = serializers.JSONField()

    example = {"task_id": tasks.TASK, "lease_token": TOKEN, "lease_until": UNTIL, "input": tasks.ASKED}


class Leased(Input):
    lease_token = Text()

    example = {"lease_token": TOKEN}


class Progress(Leased):
    message = Text(required=False, help_text="How it goes, in at most 4000 characters.")

    example = {"lease_token": TOKEN, "message": "Two of three chapters are read"}


class Complete(Leased):
    result = Mapping(allow_null=True, help_text="What came of it; null where nothing did.")

    example = {"lease_token": TOKEN, "result": {"summary": "All agreed."}}


class Fail(Leased):
    error_code = Text(help_text="A word that programs know, of at most 100 characters.")
    error_message = Text(help_text="A sentence for people, of at most 1000 characters.")

    example = {"lease_token": TOKEN, "error_code": "unreadable", "error_message": "The document is encrypted."}


class StandingShape(Shape):
    task_id = Identifier(source="id")
    state = OneOf(source="word", choices=Word.choices)
    lease_until = Moment(allow_null=True)

    example = {"task_id": tasks.TASK, "state": "running", "lease_until": UNTIL}
