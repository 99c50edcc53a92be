"""Tasks between agents, what was said in them, and what happened to them."""

from a2a.models.callbacks import Delivery, DeliveryAttempt, DisabledUrl, WebhookSecret
from a2a.models.sending import SentOnce
from a2a.models.tasks import Artifact, AwaitedCall, Task, TaskEvent, TaskMessage

__all__ = [
    "Artifact",
    "AwaitedCall",
    "Delivery",
    "DeliveryAttempt",
    "DisabledUrl",
    "SentOnce",
    "Task",
    "TaskEvent",
    "TaskMessage",
    "WebhookSecret",
]
