"""Callbacks: what signs them, what is to be delivered, and every attempt at it."""

from typing import TYPE_CHECKING
from uuid import UUID

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from a2a.choices import DeliveryState, Trouble
from a2a.models.pushing import PushConfig
from a2a.models.tasks import Task
from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from nhi.models import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


def _own(actor: "Actor") -> Q:
    """Of the actor itself, and for people of the identities that they handle; never of a run."""
    if actor.run_id is not None:
        return Q(pk__in=())
    mine = Q(owner_id=actor.id)
    return mine | Q(owner_id__in=Identity.objects.managed_by(actor).values("pk")) if actor.is_person else mine


class WebhookSecretQuerySet(models.QuerySet["WebhookSecret"]):
    def visible_to(self, actor: "Actor") -> "WebhookSecretQuerySet":
        return self if actor.may("a2a.view_webhooksecret") else self.held_by(actor)

    def held_by(self, actor: "Actor") -> "WebhookSecretQuerySet":
        return self.filter(_own(actor))


class WebhookSecret(models.Model):
    """Signs the callbacks of one owner to the URLs that begin with its prefix and with no longer one's.

    One that is removed is gone, what it was sealed with too; that it was stays on record.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: An identity or a person.
    owner_id = models.UUIDField()
    owner_name = models.CharField(max_length=192)
    url_prefix = models.CharField(max_length=500, blank=True)
    sealed = models.TextField(editable=False)
    #: The one before it signs too, until then.
    sealed_previous = models.TextField(blank=True, editable=False)
    previous_valid_until = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField()
    rotated_at = models.DateTimeField(null=True)

    objects = WebhookSecretQuerySet.as_manager()

    class Meta:
        db_table = "a2a_webhook_secret"
        ordering = ["owner_name", "url_prefix", "id"]
        constraints = [models.UniqueConstraint("owner_id", "url_prefix", name="a2a_webhook_secret_prefix")]

    def __str__(self) -> str:
        return f"the webhook secret of {self.owner_name} for {self.url_prefix or 'any URL'}"

    @property
    def sides(self) -> tuple[UUID, None]:
        """Among whose changes it stands."""
        return self.owner_id, None


class DeliveryQuerySet(NonDeletableQuerySet["Delivery"]):
    def visible_to(self, actor: "Actor") -> "DeliveryQuerySet":
        return self if actor.may("a2a.view_delivery") else self.held_by(actor)

    def held_by(self, actor: "Actor") -> "DeliveryQuerySet":
        return self.filter(_own(actor))

    def receivable(self) -> "DeliveryQuerySet":
        """Those with somewhere to go: to a callback's URL, or to a receiver that nobody removed since."""
        return self.filter(Q(push_id=None) | Q(push_id__in=PushConfig.objects.values("pk")))

    def pending(self) -> "DeliveryQuerySet":
        return self.filter(state=DeliveryState.PENDING)

    def due(self) -> "DeliveryQuerySet":
        """Those whose time has come and that nobody is about, or not any more."""
        free = Q(lease_until=None) | Q(lease_until__lt=Now())
        # Asked of each by itself: joined, by one who does not know yet how many there are, it is asked of each pair.
        first = Q(push_id=None) | ~Exists(_before())
        return self.pending().filter(free, first, next_at__lte=Now())


def _before() -> "DeliveryQuerySet":
    """What the same receiver is to be told first: a task's events come to it in their order."""
    return Delivery.objects.pending().filter(push_id=OuterRef("push_id"), event_seq__lt=OuterRef("event_seq"))


class Delivery(NonDeletableModel):
    """Something of a task to be told to a receiver: its end to its callback, or an event to who asked for every one.

    It is written in the transaction that it tells of.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="deliveries")
    #: The event that ended the task; what receivers know a repeated attempt by.
    webhook_id = models.UUIDField(unique=True)
    #: Null for the callback; else whose receiver it is for, and which event it tells.
    push_id = models.UUIDField(null=True, editable=False)
    event_seq = models.PositiveIntegerField(null=True)
    owner_id = models.UUIDField()
    owner_name = models.CharField(max_length=192)
    #: As it may be shown, its fingerprint, and the host and port in it.
    url = models.CharField(max_length=4000)
    url_mark = models.CharField(max_length=64, editable=False)
    place = models.CharField(max_length=300, editable=False)
    #: The same bytes at every attempt.
    body = models.TextField()

    state = models.CharField(
        max_length=9, choices=DeliveryState, default=DeliveryState.PENDING, editable=False
    )  # fmt: skip
    reason = models.CharField(max_length=16, choices=Trouble, blank=True)
    last_status = models.PositiveSmallIntegerField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    #: How many of them were made before it was last redelivered.
    attempts_before = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)

    #: Which worker is about it, and until when nobody else is.
    lease_mark = models.UUIDField(null=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        db_table = "a2a_delivery"
        verbose_name_plural = "deliveries"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="a2a_delivery_state"),
            models.CheckConstraint(
                condition=Q(state=DeliveryState.PENDING, next_at__isnull=False)
                | (~Q(state=DeliveryState.PENDING) & Q(next_at=None)),
                name="a2a_delivery_next",
            ),
            models.CheckConstraint(
                condition=Q(state=DeliveryState.DELIVERED, delivered_at__isnull=False)
                | (~Q(state=DeliveryState.DELIVERED) & Q(delivered_at=None)),
                name="a2a_delivery_delivered",
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="a2a_delivery_newest"),
            models.Index(fields=["owner_id", "-created_at", "-id"], name="a2a_delivery_by_owner"),
            models.Index(fields=["state", "-created_at", "-id"], name="a2a_delivery_by_state"),
            models.Index(fields=["next_at"], condition=Q(state=DeliveryState.PENDING), name="a2a_delivery_due"),
            models.Index(
                fields=["owner_id", "place", "next_at"],
                condition=Q(next_at__isnull=False),
                name="a2a_delivery_lanes",
            ),
            models.Index(
                fields=["push_id", "event_seq"], condition=Q(state=DeliveryState.PENDING), name="a2a_delivery_in_order"
            ),
        ]

    def __str__(self) -> str:
        return f"the callback of the {self.task} to {self.place}"


class DeliveryAttempt(NonDeletableModel):
    """One attempt; written before it is made, so that one whose worker died is told too."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    delivery = models.ForeignKey(Delivery, on_delete=models.PROTECT, related_name="log")
    number = models.PositiveIntegerField()
    at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)
    reason = models.CharField(max_length=16, choices=Trouble, blank=True, default=Trouble.LOST)
    took_ms = models.PositiveIntegerField(null=True)
    #: How the receiver's answer begins, without secrets (`a2a.answers`).
    answer = models.CharField(max_length=1024, blank=True)
    answer_cut = models.BooleanField(default=False)

    class Meta:
        db_table = "a2a_delivery_attempt"
        ordering = ["delivery", "number"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("delivery", "number", name="a2a_attempt_once")]

    def __str__(self) -> str:
        return f"{self.delivery_id}/{self.number}"


class DisabledUrl(models.Model):
    """A URL whose receiver said 410: no callback of this owner goes there until one is redelivered."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    owner_id = models.UUIDField()
    url_mark = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        db_table = "a2a_disabled_url"
        default_permissions = ()
        constraints = [models.UniqueConstraint("owner_id", "url_mark", name="a2a_disabled_url_once")]

    def __str__(self) -> str:
        return f"{self.owner_id}/{self.url_mark[:12]}"
