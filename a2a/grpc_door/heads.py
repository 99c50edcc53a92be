"""What the metadata of a call says, before its message is looked at."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import UUID

from django.conf import settings

from a2a.operations import faults
from a2a.operations.visits import Shown
from a2a.wire.faults import Fault, Kind, invalid
from common.asgi.client_address import find_client_address
from common.ids import parse_uuid, uuid7
from nhi.authorization import authentication
from nhi.credentials import tokens

AGENT, TENANT, VERSION = "x-gatehouse-agent", "tenant", "a2a-version"
#: Whoever sends one of these twice is read in two ways by two readers.
SINGLE = frozenset({"authorization", AGENT, VERSION, "idempotency-key", "x-request-id"})


@dataclass(frozen=True)
class Head:
    values: dict[str, str]
    repeated: frozenset[str]
    peer: str
    request_id: UUID

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    @property
    def source(self) -> str:
        """The caller's address."""
        proxies, forwarded_for = settings.GRPC_TRUSTED_PROXIES, self.get("x-forwarded-for")
        return find_client_address(peer=address(self.peer), forwarded_for=forwarded_for, proxy_count=proxies)

    def require_clear(self) -> None:
        if self.repeated:
            raise Fault(Kind.INVALID_REQUEST, f"Send this metadata once: {', '.join(sorted(self.repeated))}.")

    def require_version(self, spoken: str) -> None:
        """The service's own name says which it is: a call that says nothing is understood, one that differs is not."""
        said = self.get(VERSION).strip()
        if said and said.split(".")[:2] != spoken.split("."):
            raise Fault(
                Kind.VERSION,
                f"This service speaks A2A {spoken} and the call says {said[:20]!r}. Send {VERSION}: {spoken}, or call "
                "the service of the other version: lf.a2a.v1.A2AService is 1.0, a2a.v1.A2AService is 0.3.",
                details={"supportedVersions": "1.0 and 0.3"},
            )

    def shown(self) -> Shown:
        """What is no token of ours is refused without a query."""
        shown = Shown(self.values)
        if tokens.parse(shown.token) is None and (shown.token or not settings.DEBUG):
            raise faults.of(authentication.missing_credential_error(shown.token or self.values.get("authorization")))
        return shown

    def agent(self, tenant: str, usual: str) -> str:
        """Whom the call is for: its metadata says so, or the tenant that cards tell clients to send."""
        named = self.get(AGENT).strip()
        if named and tenant and named != tenant:
            raise invalid((TENANT, f"This says {tenant[:100]!r} and the metadata's {AGENT} says {named[:100]!r}."))
        if found := named or tenant or usual:
            return found
        raise invalid((TENANT, f"Say which agent this is for: here, or in the metadata as {AGENT}."))


def read(metadata: Iterable[tuple[str, str | bytes]], peer: str) -> Head:
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in metadata:
        text = value if isinstance(value, str) else ""
        if name in values and name in SINGLE:
            repeated.add(name)
        values[name] = f"{values[name]}, {text}" if name in values else text
    return Head(values, frozenset(repeated), peer, parse_uuid(values.get("x-request-id", "")) or uuid7())


def address(peer: str) -> str:
    """`ipv4:127.0.0.1:50051` and `ipv6:%5B::1%5D:50051` without their ports; none for a socket of this machine."""
    kind, _, place = peer.partition(":")
    return unquote(place).rpartition(":")[0].strip("[]") if kind in {"ipv4", "ipv6"} else ""
