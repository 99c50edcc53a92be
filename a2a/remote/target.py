"""Another A2A server as it is to be reached, and the one of its interfaces that is used."""

from dataclasses import dataclass, field
from typing import Literal

from yarl import URL

Version = Literal["1.0", "0.3"]
Binding = Literal["JSONRPC", "HTTP+JSON", "GRPC"]
#: Ours, the best first.
VERSIONS: tuple[Version, ...] = ("1.0", "0.3")
BINDINGS: tuple[Binding, ...] = ("JSONRPC", "HTTP+JSON", "GRPC")


@dataclass(frozen=True)
class Credential:
    """What the remote server knows us by: one header."""

    header: str
    value: str = field(repr=False)


@dataclass(frozen=True)
class Target:
    """`url` is where the agent's card is, or what its place under `/.well-known/` is appended to.

    With a version and a binding that are named, it may also be the interface itself, of a server without a card.
    """

    url: str
    version: Version | Literal["auto"] = "auto"
    binding: Binding | Literal["auto"] = "auto"
    #: Never anything of a caller's.
    credential: Credential | None = None
    #: Seconds that one answer of it may take; of a stream, its beginning.
    timeout: float = 120.0
    #: Seconds in which it ends a task, or asks for more, after each message that it is sent.
    patience: float = 86400.0

    def trusts(self, url: str) -> bool:
        """Whether `url` leads to the place that was set, so that our credential may go there."""
        return URL(url).origin() == URL(self.url).origin()

    def trusts_host(self, url: str) -> bool:
        """The same over gRPC, whose servers have a port of their own."""
        return self.trusts(str(URL(url).with_port(URL(self.url).port)))

    @property
    def place(self) -> str:
        read = URL(self.url)
        return f"{read.raw_host}:{read.port}"


@dataclass(frozen=True)
class Interface:
    """One way to an agent."""

    url: str
    version: Version
    binding: Binding
    #: To be repeated in every request.
    tenant: str = ""
    streaming: bool = False

    @property
    def untagged_old(self) -> bool:
        """0.3 over REST and gRPC is ProtoJSON, which says by names and not by `kind` what a thing is."""
        return self.version == "0.3" and self.binding != "JSONRPC"
