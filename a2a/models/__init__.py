"""Tasks between agents, what was said in them, and what happened to them."""

from a2a.models.callbacks import Delivery, DeliveryAttempt, DisabledUrl, WebhookSecret
from a2a.models.cards import AgentCard, Skill
from a2a.models.endpoints import Endpoint
from a2a.models.happenings import Artifact, ArtifactPiece, AwaitedCall, TaskEvent, TaskMessage
from a2a.models.pushing import PushConfig
from a2a.models.remote import RemoteTask
from a2a.models.runtimes import Runtime
from a2a.models.sending import SentOnce
from a2a.models.tallies import Tally
from a2a.models.tasks import Task

__all__ = [
    "AgentCard",
    "Artifact",
    "ArtifactPiece",
    "AwaitedCall",
    "Delivery",
    "DeliveryAttempt",
    "DisabledUrl",
    "Endpoint",
    "PushConfig",
    "RemoteTask",
    "Runtime",
    "SentOnce",
    "Skill",
    "Tally",
    "Task",
    "TaskEvent",
    "TaskMessage",
    "WebhookSecret",
]
