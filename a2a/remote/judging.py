"""What a test's trouble means, and what to do about it. Without the network."""

import socket
import ssl
from collections.abc import Iterator

import aiohttp

from a2a.choices import Shown, Tested
from a2a.remote.troubles import BUSY, Code, Trouble
from a2a.wire.faults import Kind

CREDENTIALS = frozenset({Kind.UNAUTHENTICATED, Kind.FORBIDDEN})
#: It answers, and knows no such question.
OTHER_WORDS = frozenset({Kind.METHOD_NOT_FOUND, Kind.VERSION})
BY_CODE = {
    Code.BLOCKED: Tested.BLOCKED,
    Code.TIMEOUT: Tested.TIMEOUT,
    Code.NO_INTERFACE: Tested.NO_INTERFACE,
    Code.INVALID_ANSWER: Tested.NO_PROTOCOL,
    Code.TOO_LARGE: Tested.NO_PROTOCOL,
    Code.ERROR: Tested.FAILED,
    Code.LOST: Tested.WORKS,
}
#: In this order: errors of the client are of several kinds at once.
CAUSES: tuple[tuple[tuple[type[BaseException], ...], Tested], ...] = (
    ((aiohttp.ClientSSLError, ssl.SSLError), Tested.CERTIFICATE),
    ((aiohttp.ClientConnectorDNSError, socket.gaierror), Tested.UNKNOWN_HOST),
    ((TimeoutError,), Tested.TIMEOUT),
)
ADVICE = {
    Tested.UNPROVEN: "See that the address is the agent's own and whole. A task that is sent there shows the rest.",
    Tested.UNKNOWN_HOST: "See that the name of the host is spelled right, and known where Gatehouse runs.",
    Tested.UNREACHABLE: "See that it runs, that scheme, host and port are right, and that no firewall stands between. "
    "A server of gRPC alone needs its version and binding named.",
    Tested.CERTIFICATE: "See that it speaks TLS at this port, with a certificate for this host that is trusted and has "
    "not ended.",
    Tested.TIMEOUT: "It is slow, or hangs, or a firewall stands between: look at the server's own log.",
    Tested.NO_PROTOCOL: "See that the address, the version and the binding are those of the agent: something else "
    "answers there.",
    Tested.NO_INTERFACE: "Choose another version or binding, or the address of another card.",
    Tested.BUSY: "Test it again a little later.",
    Tested.FAILED: "Look at the server's own log: it failed at a question that changes nothing.",
}
CREDENTIAL = {
    Shown.REFUSED: "See that the credential is the right one and has not ended, and that its header and the word "
    "before it, such as Bearer, are what the server wants.",
    Shown.NONE: "It wants a credential: set one.",
    Shown.WITHHELD: "Our credential goes only to the place that was set, and the interface is at another: set an "
    "address at the interface's own place.",
}


def outcome(trouble: Trouble, *, over_grpc: bool) -> Tested:
    if trouble.kind in CREDENTIALS:
        return Tested.CREDENTIAL_REFUSED
    if trouble.kind in BUSY:
        return Tested.BUSY
    if trouble.code == Code.UNREACHABLE:
        found = (what for cause in _causes(trouble) for kinds, what in CAUSES if isinstance(cause, kinds))
        return next(found, Tested.UNREACHABLE)
    if trouble.code == Code.REFUSED:
        return _refused(trouble, over_grpc=over_grpc)
    return BY_CODE.get(trouble.code, Tested.FAILED)


def advice(found: Tested, shown: Shown) -> str:
    return CREDENTIAL[shown] if found == Tested.CREDENTIAL_REFUSED else ADVICE.get(found, "")


def _refused(trouble: Trouble, *, over_grpc: bool) -> Tested:
    if trouble.kind == Kind.NOT_FOUND and over_grpc:
        # Who knows no such service says so by another status.
        return Tested.WORKS
    is_other = trouble.kind in OTHER_WORDS or trouble.redirects
    return Tested.NO_PROTOCOL if is_other else Tested.UNPROVEN


def _causes(trouble: Trouble) -> Iterator[BaseException]:
    cause = trouble.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__
