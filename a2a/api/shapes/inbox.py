"""What an agent's own workers send and are given."""

from rest_framework import serializers

from a2a.api.shapes import tasks
from a2a.api.shapes.tasks import ChainLinkShape
from a2a.choices import Word
from common.api.fields import Flag, Identifier, Mapping, Moment, Text, Whole
from common.api.fields import Word as OneOf
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples as story

TOKEN = "mC3v9Yq0sT5k"  # noqa: S105 - an example in the documentation
UNTIL = "2026-11-18T10:01:00.000000Z"
MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"data": tasks.ASKED, "mediaType": "application/json"}]}


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


class InboxFilters(Filters):
    wait = serializers.IntegerField(
        default=0, min_value=0, help_text="Seconds to wait for a task while there is none; 60 at most."
    )  # fmt: skip


class Claim(Input):
    lease_seconds = Whole(default=60, help_text="1 to 3600; a heartbeat lends it for as long again.")

    example = {"lease_seconds": 60}


class ClaimedShape(Shape):
    task_id = Identifier(source="task.id")
    lease_token = Text(help_text="Shown once; the one who claims the task after the lease has ended gets another.")
    lease_until = Moment(source="task.lease_until")
    input = serializers.JSONField(help_text="What the task is about, as it was sent.")
    message = serializers.JSONField(help_text="What the caller said last, as A2A 1.0 writes it.")
    history = serializers.ListField(
        child=serializers.JSONField(), help_text="All that was said so far, in order; an answer of the caller's too."
    )

    example = {
        "task_id": tasks.TASK,
        "lease_token": TOKEN,
        "lease_until": UNTIL,
        "input": tasks.ASKED,
        "message": MESSAGE,
        "history": [MESSAGE],
    }


class ClaimNext(Claim):
    limit = Whole(default=1, help_text="How many at most; 1 to 20.")
    wait = Whole(default=0, help_text="Seconds to wait for a task while there is none; 60 at most.")

    example = {"lease_seconds": 60, "limit": 1, "wait": 20}


class ClaimedTasksShape(Shape):
    tasks = ClaimedShape(many=True)

    example = {"tasks": [ClaimedShape.example]}


class Leased(Input):
    lease_token = Text()

    example = {"lease_token": TOKEN}


class Progress(Leased):
    message = Text(required=False, help_text="How it goes, in at most 4000 characters.")

    example = {"lease_token": TOKEN, "message": "Two of three chapters are read"}


class Complete(Leased):
    result = Mapping(allow_null=True, help_text="What came of it; null where nothing did.")

    example = {"lease_token": TOKEN, "result": {"summary": "All agreed."}}


class Made(Leased):
    artifact = serializers.JSONField(help_text="An artifact, as A2A 1.0 writes it: artifactId, parts, name and more.")
    append = Flag(default=False, help_text="Its parts come behind those that were made under the same artifactId.")
    last = Flag(default=True, help_text="Whether this is all of it.")

    example = {
        "lease_token": TOKEN,
        "artifact": {"artifactId": "summary", "parts": [{"text": "All agreed."}]},
        "append": False,
        "last": True,
    }


class Ask(Leased):
    message = Text(help_text="The question, in at most 4000 characters.")
    sign_in = Flag(default=False, help_text="What is missing is that the caller signs in somewhere.")

    example = {"lease_token": TOKEN, "message": "Which of the two?", "sign_in": False}


class Answer(Leased):
    parts = serializers.JSONField(help_text="The message's parts, as A2A 1.0 writes them.")

    example = {"lease_token": TOKEN, "parts": [{"text": "It is Thursday."}]}


class Reject(Leased):
    message = Text(help_text="Why, in at most 1000 characters.")

    example = {"lease_token": TOKEN, "message": "I summarise texts; this is a picture."}


class Fail(Leased):
    error_code = Text(help_text="A word that programs know, of at most 100 characters.")
    error_message = Text(help_text="A sentence for people, of at most 1000 characters.")

    example = {"lease_token": TOKEN, "error_code": "unreadable", "error_message": "The document is encrypted."}


class StandingShape(Shape):
    task_id = Identifier(source="id")
    state = OneOf(source="word", choices=Word.choices)
    lease_until = Moment(allow_null=True)

    example = {"task_id": tasks.TASK, "state": "running", "lease_until": UNTIL}
