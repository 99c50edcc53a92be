"""How an agent is reached and how much it takes: its settings, and the refusals that follow from them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings as installation

from a2a.choices import Authentication, Transport
from a2a.models import Endpoint
from a2a.wire import media, methods
from a2a.wire.faults import Fault, Kind
from nhi import actors
from nhi.models import Identity
from supervisor.access import Caller


@dataclass(frozen=True)
class Settings:
    """Of one agent, as they hold now."""

    identity_id: UUID
    name: str
    #: In the order in which clients are told to prefer them.
    transports: tuple[Transport, ...]
    authentication: Authentication
    api_key_header: str
    #: In whose name callers ask who show nothing.
    open_as_id: UUID | None
    tasks_per_minute: int | None
    tasks_per_hour: int | None
    max_concurrent_tasks: int | None
    methods: tuple[str, ...]
    max_input_size: int
    max_output_size: int
    streaming: bool
    #: Empty: any.
    content_types: tuple[str, ...]
    updated_at: datetime | None

    @property
    def base_path(self) -> str:
        return f"/agents/{self.name}"

    @property
    def header_name(self) -> str:
        """Where a caller's token stands."""
        return self.api_key_header if self.authentication == Authentication.API_KEY else "Authorization"

    @property
    def required(self) -> bool:
        return not self.is_open

    @property
    def concurrent_execution(self) -> bool:
        return self.max_concurrent_tasks != 1

    @property
    def is_open(self) -> bool:
        return self.authentication == Authentication.NONE


def of(identity: Identity) -> Settings:
    """One query; the usual values where nobody has set any."""
    return read(identity, Endpoint.objects.filter(pk=identity.pk).first())


def read(identity: Identity, row: Endpoint | None) -> Settings:
    """The same for who has the row, or knows that there is none."""
    kept = row or Endpoint()
    return Settings(
        identity_id=identity.pk,
        name=identity.name,
        transports=tuple(way for way in Transport if getattr(kept, way)),
        authentication=_effective(Authentication(kept.authentication)),
        api_key_header=kept.api_key_header,
        open_as_id=kept.open_as_id,
        tasks_per_minute=kept.tasks_per_minute,
        tasks_per_hour=kept.tasks_per_hour,
        max_concurrent_tasks=kept.max_concurrent_tasks,
        methods=tuple(kept.supported_methods or methods.ALL),
        max_input_size=kept.max_input_size,
        max_output_size=kept.max_output_size,
        streaming=kept.streaming,
        content_types=tuple(kept.content_types),
        updated_at=row.updated_at if row else None,
    )


def _effective(chosen: Authentication) -> Authentication:
    """What a development server was told to leave open is closed where the same database serves in earnest."""
    return Authentication.BEARER_TOKEN if chosen == Authentication.NONE and not installation.DEBUG else chosen


def require(
    settings: Settings, *, transport: str, operation: str, size: int = 0, content_types: Collection[str] = ()
) -> None:
    """Refuse what this agent's endpoint does not do. `size` is the request's bytes, `content_types` its parts'."""
    if transport not in settings.transports:
        said = f"{settings.name} is not reached over {Transport(transport).label}. Its card says over what it is."
        raise Fault(Kind.UNSUPPORTED, said)
    if operation not in settings.methods:
        raise Fault(Kind.UNSUPPORTED, f"{settings.name} does not do {operation}.")
    if operation in methods.STREAMS and not settings.streaming:
        raise Fault(Kind.UNSUPPORTED, f"{settings.name} does not stream. Send the message, then read its task.")
    require_size(settings, size)
    for one in content_types:
        if not media.takes(settings.content_types, one):
            said = f"{settings.name} does not take {one[:100]}: it takes {', '.join(settings.content_types)}."
            raise Fault(Kind.CONTENT_TYPE, said)


def require_size(settings: Settings, size: int) -> None:
    if size > settings.max_input_size:
        most = settings.max_input_size
        raise Fault(Kind.TOO_LARGE, f"{settings.name} takes at most {most} bytes.", details={"limit": most})


def bearer_of(settings: Settings, headers: Mapping[str, str]) -> str | None:
    """What the caller shows where this endpoint looks for it; None for nothing at all."""
    wanted = settings.header_name.lower()
    given = next((value for name, value in headers.items() if name.lower() == wanted), None)
    if given is None or settings.authentication == Authentication.API_KEY:
        return given
    scheme, _, token = given.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def stand_in(settings: Settings) -> Caller | None:
    """Who asks where nobody shows anything: an identity whose grants say what strangers may; None for a closed door."""
    if not settings.is_open or settings.open_as_id is None:
        return None
    row = Identity.objects.filter(pk=settings.open_as_id).first()
    return Caller(actors.identity(row, is_narrowed=True)) if row is not None else None
