"""How an agent is reached over A2A, and how much it takes. Who has no row is reached by the usual values."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.utils import timezone

from a2a.choices import Authentication
from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from nhi.models import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor

#: Ten mebibytes: as much as a request may have at all.
LARGEST = 10 * 1024 * 1024


class EndpointQuerySet(NonDeletableQuerySet["Endpoint"]):
    def visible_to(self, actor: "Actor") -> "EndpointQuerySet":
        return self.filter(identity__in=Identity.objects.visible_to(actor).values("pk"))


class Endpoint(NonDeletableModel):
    """Seed 001: A2AEndpoint. Its base path follows from the agent's name."""

    identity = models.OneToOneField(Identity, on_delete=models.PROTECT, primary_key=True, related_name="endpoint")
    json_rpc = models.BooleanField(default=True)
    http_json = models.BooleanField(default=True)
    grpc = models.BooleanField(default=True)

    authentication = models.CharField(
        max_length=12, choices=Authentication, default=Authentication.BEARER_TOKEN
    )  # fmt: skip
    api_key_header = models.CharField(max_length=100, default="X-API-Key")
    #: In whose name callers ask who show nothing.
    open_as = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="+", null=True)

    #: New tasks; null for no limit.
    tasks_per_minute = models.PositiveIntegerField(null=True)
    tasks_per_hour = models.PositiveIntegerField(null=True)
    #: Tasks that are not done; null for no limit.
    max_concurrent_tasks = models.PositiveIntegerField(null=True)

    #: Empty: all of them.
    supported_methods = models.JSONField(default=list)
    max_input_size = models.PositiveIntegerField(default=LARGEST)
    max_output_size = models.PositiveIntegerField(default=LARGEST)
    streaming = models.BooleanField(default=True)
    #: Empty: any.
    content_types = models.JSONField(default=list)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = EndpointQuerySet.as_manager()

    class Meta:
        db_table = "a2a_endpoint"
        ordering = ["identity"]
        constraints = [
            models.CheckConstraint(condition=Q(authentication__in=Authentication.values), name="a2a_endpoint_auth"),
            models.CheckConstraint(
                condition=Q(json_rpc=True) | Q(http_json=True) | Q(grpc=True), name="a2a_endpoint_reached"
            ),
            models.CheckConstraint(
                condition=~Q(authentication=Authentication.NONE) | Q(open_as__isnull=False),
                name="a2a_endpoint_open_as_somebody",
            ),
            models.CheckConstraint(
                condition=Q(max_input_size__gte=1) & Q(max_output_size__gte=1), name="a2a_endpoint_sizes"
            ),
        ]

    def __str__(self) -> str:
        return f"the endpoint of {self.identity}"

    @property
    def is_limited(self) -> bool:
        return any(most is not None for most in (self.tasks_per_minute, self.tasks_per_hour, self.max_concurrent_tasks))
