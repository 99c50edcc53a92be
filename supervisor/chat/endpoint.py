"""One request to a model's endpoint: sent through the guarded client, read as it comes, its failures told apart."""

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from common import egress
from common.egress import event_stream
from common.errors import PayloadTooLarge
from supervisor.chat import faults
from supervisor.chat.answers import LONGEST, Answer, Assembly, error_text

PATH = "/chat/completions"
#: Seconds without a byte: a large model may think before its first word, and a dead one never says that it is.
QUIET = 180.0
#: Of a stream, which wraps each word in a few hundred bytes; of one event in it, or an answer that comes whole.
MOST_STREAMED, MOST_WHOLE = 64 << 20, 2 * LONGEST
#: How much of a refusal is read, and for how long: its status has said most.
REFUSAL_LIMIT, REFUSAL_SECONDS = 64 << 10, 2.0
#: Statuses below 500 that pass by themselves.
PASSING = frozenset({408, 409, 425, 429})
LONGEST_WAIT = 30.0
USAGE = "stream_options"
Json = dict[str, Any]


@dataclass(frozen=True)
class Endpoint:
    base_url: str
    model: str
    key: str = field(repr=False)

    async def ask(self, messages: Sequence[Json], tools: Sequence[Json], *, on_text: Callable[[str], None]) -> Answer:
        """The model's next answer; `on_text` hears of its text as it comes."""
        wanted: Json = {"model": self.model, "messages": list(messages), "stream": True}
        if tools:
            wanted["tools"] = list(tools)
        with _translated():
            async with self._posted({**wanted, USAGE: {"include_usage": True}}) as response:
                said = await _refusal_text(response)
                if not said or USAGE not in said:
                    return await _read(response, said, on_text)
            # An endpoint that does not know the wish to have tokens counted; it is asked without.
            async with self._posted(wanted) as response:
                return await _read(response, await _refusal_text(response), on_text)

    @contextlib.asynccontextmanager
    async def _posted(self, wanted: Json) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            # A packed answer could be a small bomb; the limits count what was sent.
            "Accept-Encoding": "identity",
            # One that was kept open may be hung up just when a request goes out on it, and nobody would know why.
            "Connection": "close",
        }
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = json.dumps(wanted).encode()
        timeout = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=5, sock_read=QUIET)
        session = egress.open_session()
        async with session.post(self._url, data=data, headers=headers, timeout=timeout) as response:
            yield response

    @property
    def _url(self) -> str:
        base, mark, query = self.base_url.partition("?")
        return f"{base.rstrip('/')}{PATH}{mark}{query}"


async def _read(response: aiohttp.ClientResponse, said: str | None, on_text: Callable[[str], None]) -> Answer:
    if said is not None:
        raise _refused(response, said)
    assembly = Assembly(on_text)
    if response.content_type == "text/event-stream":
        await _stream(response, assembly)
    else:
        assembly.take(_json(await egress.read_limited_body(response, MOST_WHOLE)))
    return assembly.answer()


async def _stream(response: aiohttp.ClientResponse, assembly: Assembly) -> None:
    parser, size = event_stream.EventStreamParser(MOST_WHOLE), 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > MOST_STREAMED:
            raise PayloadTooLarge(MOST_STREAMED)
        for event in parser.feed(chunk):
            if event.data.strip() == b"[DONE]":
                assembly.end()
                return
            assembly.take(_json(event.data))
        # A flood of events leaves the others of this loop their turn.
        await asyncio.sleep(0)


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise faults.unreadable("The endpoint's answer is not JSON.") from None


async def _refusal_text(response: aiohttp.ClientResponse) -> str | None:
    """What a status that is no success came with; None for a success, which is still to be read."""
    if 200 <= response.status < 300:
        return None
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            raw = await egress.read_limited_body(response, REFUSAL_LIMIT)
        return error_text(json.loads(raw))
    except (ValueError, RecursionError, PayloadTooLarge, TimeoutError, aiohttp.ClientError, faults.ChatFault):
        return ""


def _refused(response: aiohttp.ClientResponse, said: str) -> faults.ChatFault:
    status = response.status
    if 300 <= status < 400:
        return faults.lasting(f"The endpoint answered with a redirect ({status}), and redirects are not followed.")
    if status in {401, 403}:
        return faults.lasting(f"The endpoint refused the agent's key ({status}).", said=said)
    what = f"The endpoint answered with status {status}."
    if status >= 500 or status in PASSING:
        return faults.passing(what, said=said, wait=_wait(response.headers.get("Retry-After", "")))
    return faults.lasting(what, said=said)


def _wait(said: str) -> float:
    """Seconds that `Retry-After` asks for, as far as they are kept to; a date is not."""
    try:
        seconds = float(said)
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT) if math.isfinite(seconds) else 0.0


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """What is raised on the way, as faults. In this order: aiohttp's errors are of several kinds at once."""
    try:
        yield
    except egress.EgressBlocked as blocked:
        raise faults.lasting(str(blocked)) from blocked
    except PayloadTooLarge as error:
        raise faults.unreadable("The endpoint's answer is larger than one can be.") from error
    except aiohttp.ServerTimeoutError as error:
        raise faults.passing("The endpoint took no connection in time, or fell silent.") from error
    except aiohttp.ClientResponseError as error:
        raise faults.unreadable("The endpoint does not answer in HTTP.") from error
    except aiohttp.ClientSSLError as error:
        raise faults.lasting("No secure connection to the endpoint: its certificate is refused.") from error
    except aiohttp.ClientConnectorError as error:
        raise faults.passing(f"No connection to the endpoint: {error.strerror or error}.") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise faults.passing("The endpoint closed the connection before it had answered.") from error
    except ValueError as error:
        raise faults.lasting("The agent's key cannot be sent in a header: give it anew, on one line.") from error
