"""What goes wrong with a remote agent, and what its refusals mean."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from enum import StrEnum
from typing import Any

import aiohttp

from a2a.wire.faults import Kind
from a2a.wire.v03 import errors
from common.egress import EgressBlocked
from common.egress.tracked_body import SentFlag
from mcp.protocol.upstream_errors import FaultCode, UpstreamFault
from nhi.audit import sanitization

#: What is kept of the words of a remote agent.
LONGEST_SAID = 500


class Code(StrEnum):
    """The error codes of tasks that came to nothing on their way."""

    UNREACHABLE = "remote_unreachable"
    BLOCKED = "remote_blocked"
    TIMEOUT = "remote_timeout"
    REFUSED = "remote_refused"
    ERROR = "remote_error"
    INVALID_ANSWER = "remote_invalid_answer"
    TOO_LARGE = "remote_too_large"
    LOST = "remote_lost"
    NO_INTERFACE = "remote_no_interface"
    FAILED = "remote_failed"
    CANCELED = "remote_canceled"
    #: As the sweep says it.
    DEADLINE = "deadline_exceeded"
    #: As an agent of ours is told it.
    OUTPUT_TOO_LARGE = "output_too_large"
    TASK_FULL = "task_full"


BLOCKED = "Gatehouse does not call the remote agent: its address is not allowed. An operator finds why at this task."
NO_CONNECTION = "There is no connection to the remote agent."
CODES: dict[FaultCode, Code] = {
    "unreachable": Code.UNREACHABLE,
    "closed": Code.UNREACHABLE,
    "timeout": Code.TIMEOUT,
    "too_large": Code.TOO_LARGE,
    "protocol": Code.INVALID_ANSWER,
}
#: What a task here has no room for: no fault of the place, and asking again changes nothing.
NO_ROOM = frozenset({Code.OUTPUT_TOO_LARGE, Code.TASK_FULL})
PASSING: frozenset[FaultCode] = frozenset({"unreachable", "closed", "timeout"})
#: Kinds by JSON-RPC's code and by the reason in REST's details. -32003 and up differ in no version.
BY_CODE = {kind.value.jsonrpc: kind for kind in Kind}
BY_REASON = {kind.value.reason: kind for kind in Kind}
#: And by what 0.3 calls it over REST and gRPC.
BY_NAME = {errors.name(kind): kind for kind in Kind}
BUSY = frozenset({Kind.LIMITED, Kind.UNAVAILABLE})
BROKEN = frozenset({Kind.INTERNAL, Kind.INVALID_RESPONSE})
#: What a server says that knows no streams, or no such path.
NOT_OFFERED = frozenset({Kind.UNSUPPORTED, Kind.METHOD_NOT_FOUND})


class Trouble(Exception):
    """No answer that can be used.

    `said` is a sentence for whoever sent the task; words of the remote agent's in it are cut. `operator` is the same
    with what describes this installation, for people alone.
    """

    def __init__(
        self,
        code: Code,
        said: str,
        *,
        sent: bool = False,
        passing: bool = False,
        retry_after: float = 0.0,
        kind: Kind | None = None,
        redirects: bool = False,
        operator: str = "",
    ) -> None:
        super().__init__(f"{code}: {said}")
        self.code = code
        self.said = said
        self.operator = operator or said
        #: Whether the request may have had an effect: false only where it surely did not leave, or was refused.
        self.sent = sent
        #: Whether the same may go well a little later.
        self.passing = passing
        self.retry_after = retry_after
        self.kind = kind
        self.redirects = redirects

    @property
    def not_offered(self) -> bool:
        return self.kind in NOT_OFFERED

    @property
    def unknown_task(self) -> bool:
        return self.kind in (Kind.TASK_NOT_FOUND, Kind.NOT_FOUND)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """The faults of the HTTP client, as troubles."""
    try:
        yield
    except UpstreamFault as fault:
        raise of_fault(fault) from fault


def of_fault(fault: UpstreamFault) -> Trouble:
    if isinstance(fault.__cause__, EgressBlocked):
        return blocked(fault.detail)
    said = fault.detail.replace("The server", "The remote agent")
    if isinstance(fault.__cause__, aiohttp.ClientConnectorError):
        # The system's own words may name addresses.
        return Trouble(CODES[fault.code], NO_CONNECTION, passing=fault.code in PASSING, operator=said)
    return Trouble(CODES[fault.code], said, sent=fault.sent, passing=fault.code in PASSING)


def blocked(why: str) -> Trouble:
    """Egress rules forbid it: why, is a matter of this installation."""
    return Trouble(Code.BLOCKED, BLOCKED, operator=f"Gatehouse does not call the remote agent. {why}")


def of_error(error: Any, *, retry_after: float = 0.0) -> Trouble:
    """An error of JSON-RPC's."""
    code = error.get("code") if isinstance(error, Mapping) else None
    if not isinstance(code, int):
        return Trouble(Code.INVALID_ANSWER, "The remote agent's answer is an error without a code.", sent=True)
    return of_kind(BY_CODE.get(code), f"{code}", error, retry_after=retry_after)


def of_status(status: int, body: Any, *, retry_after: float) -> Trouble:
    """A status that is no success, with what its body says."""
    if 300 <= status < 400:
        said = f"The remote agent answered with a redirect ({status}), and redirects are not followed."
        return Trouble(Code.REFUSED, said, redirects=True)
    if status in (401, 403):
        return of_credentials(f"{status}", body, known=status == 403)
    return of_kind(_kind(status, body), f"status {status}", body, retry_after=retry_after, status=status)


def of_credentials(label: str, body: Any, *, known: bool) -> Trouble:
    """Who is known may be refused for what it asks, too."""
    what = "our credentials, or the call by them" if known else "our credentials"
    kind = Kind.FORBIDDEN if known else Kind.UNAUTHENTICATED
    return Trouble(Code.REFUSED, f"The remote agent refused {what} ({label}).{_words(body)}", kind=kind)


def of_error_body(said: Any) -> Trouble:
    """An error in the middle of a stream, whose status was a success."""
    held = said.get("error") if isinstance(said, Mapping) else None
    status = held.get("code") if isinstance(held, Mapping) else None
    known = isinstance(status, int) and 400 <= status < 600
    return of_status(status if known else 500, said, retry_after=0)  # type: ignore[arg-type]  # narrowed by `known`


def of_kind(kind: Kind | None, label: str, body: Any, *, retry_after: float, status: int = 0) -> Trouble:
    if kind in BUSY:
        said = f"The remote agent takes nothing now ({label}).{_words(body)}"
        return Trouble(Code.UNREACHABLE, said, passing=True, retry_after=retry_after, kind=kind)
    if kind in BROKEN or status >= 500:
        said = f"The remote agent failed at it ({label}).{_words(body)}"
        return Trouble(Code.ERROR, said, sent=True, passing=True, kind=kind)
    if kind == Kind.TASK_NOT_FOUND:
        return Trouble(Code.LOST, f"The remote agent does not know the task ({label}).{_words(body)}", kind=kind)
    return Trouble(Code.REFUSED, f"The remote agent refused it ({label}).{_words(body)}", kind=kind)


def _kind(status: int, body: Any) -> Kind | None:
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, Mapping) and (kind := BY_REASON.get(str(detail.get("reason")))):
            return kind
    if isinstance(error, Mapping) and isinstance(error.get("code"), int) and (kind := BY_CODE.get(error["code"])):
        return kind
    if isinstance(error, str) and (kind := BY_NAME.get(error)):
        return kind
    by_status = {404: Kind.NOT_FOUND, 405: Kind.METHOD_NOT_FOUND, 501: Kind.METHOD_NOT_FOUND}
    return {**by_status, 429: Kind.LIMITED, 503: Kind.UNAVAILABLE}.get(status)


def _words(said: Any) -> str:
    """What it said to it. Data of another machine's: on one line, without what could pass for ours."""
    held = said.get("error") if isinstance(said, Mapping) and isinstance(said.get("error"), Mapping) else said
    words = held.get("message") if isinstance(held, Mapping) else None
    line = sanitization.single_line(words, LONGEST_SAID) if isinstance(words, str) else ""
    return f" It said: {line}" if line else ""


def late(seconds: float, sent: SentFlag) -> Trouble:
    said = f"The remote agent did not answer within {seconds:g} s."
    return Trouble(Code.TIMEOUT, said, sent=sent.is_set, passing=True)


@contextlib.asynccontextmanager
async def within(seconds: float | None, sent: SentFlag) -> AsyncIterator[None]:
    """An absolute deadline: bytes that trickle in do not move it."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise late(seconds or 0, sent) from None
