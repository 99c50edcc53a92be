"""Audit events."""

from typing import Any

from rest_framework import serializers

from common.api.fields import Identifier, Mapping, Moment, QueryMoment, Text, Word
from common.api.shapes import Filters, Shape
from nhi.api.shapes import examples
from nhi.audit.event_catalogue import EVENTS
from nhi.choices import ActorKind


class EventShape(Shape):
    id = Identifier()
    at = Moment()
    event = Text()
    actor_kind = Word(choices=ActorKind.choices)
    actor_id = Identifier(allow_null=True)
    actor_name = Text()
    subject_kind = Text()
    subject_id = Identifier(allow_null=True)
    subject_name = Text()
    before = Mapping(allow_null=True)
    after = Mapping(allow_null=True)
    details = Mapping()
    reason = Text()
    request_id = Identifier(allow_null=True)
    source = Text()  # type: ignore[assignment]  # its name on the wire; the metaclass takes it away

    example = {
        "id": examples.EVENT,
        "at": examples.NOW,
        "event": "identity.suspended",
        "actor_kind": "user",
        "actor_id": examples.MARA,
        "actor_name": "mara",
        "subject_kind": "identity",
        "subject_id": examples.DEPLOY_BOT,
        "subject_name": "deploy-bot",
        "before": {"state": "active"},
        "after": {"state": "suspended"},
        "details": {},
        "reason": "Token found in a public log",
        "request_id": examples.REQUEST,
        "source": "192.0.2.7",
    }


class EventCode(serializers.CharField):
    """A code of the catalogue, which grows; so the description does not list it."""

    default_error_messages = {"unknown": "There is no such event."}

    def to_internal_value(self, data: Any) -> str:
        if data not in EVENTS:
            self.fail("unknown")
        return str(data)


class EventFilters(Filters):
    actor_id = Identifier(required=False)
    subject_id = Identifier(required=False)
    event = EventCode(required=False, help_text="A code of the catalogue, like `identity.suspended`.")
    request_id = Identifier(required=False)
    since = QueryMoment(required=False, help_text="This moment and later.")
    until = QueryMoment(required=False, help_text="Before this moment.")
