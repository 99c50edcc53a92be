"""One attempt to tell a receiver: what is sent, and what its answer means. Of its text only the beginning is read."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import aiohttp

from a2a import answers, retrying
from a2a.answers import NOTHING, Heard
from a2a.choices import Trouble
from common import egress

#: For the whole attempt.
SECONDS = 15.0
#: One that was kept open may be hung up just when the next callback goes out on it.
ALWAYS = {"Content-Type": "application/json", "Connection": "close", "Accept-Encoding": "identity"}
GONE = 410
SAYING_WHEN = frozenset({429, 503})


@dataclass(frozen=True)
class Outcome:
    """Delivered where there was no trouble."""

    trouble: Trouble | None = None
    status: int | None = None
    #: Seconds for which the receiver wants to be left alone.
    retry_after: float = 0.0
    took_ms: int = 0
    #: How the text of the answer begins.
    said: Heard = NOTHING


async def post(url: str, *, headers: Mapping[str, str], body: bytes) -> Outcome:
    started = time.perf_counter()
    outcome = await _answered(url, {**ALWAYS, **headers}, body, started)
    return outcome if outcome.took_ms else replace(outcome, took_ms=_since(started))


async def _answered(url: str, headers: Mapping[str, str], body: bytes, started: float) -> Outcome:
    """In this order: aiohttp's errors are of several kinds at once."""
    try:
        async with (
            asyncio.timeout(SECONDS) as patience,
            egress.open_session().post(url, data=body, headers=headers) as response,
        ):
            # It has been heard: what is read beside that has a patience of its own.
            patience.reschedule(None)
            outcome = judged(response.status, response.headers.get("Retry-After", ""))
            outcome = replace(outcome, took_ms=_since(started), said=await answers.beginning(response))
            response.close()
            return outcome
    except egress.EgressBlocked:
        return Outcome(Trouble.EGRESS_BLOCKED)
    except aiohttp.ClientSSLError:
        return Outcome(Trouble.CERTIFICATE)
    except TimeoutError:
        return Outcome(Trouble.TIMEOUT)
    except (aiohttp.ClientError, OSError):
        return Outcome(Trouble.UNREACHABLE)


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


def judged(status: int, retry_after: str) -> Outcome:
    if 200 <= status < 300:
        return Outcome(status=status)
    if 300 <= status < 400:
        return Outcome(Trouble.REDIRECT, status)
    if status == GONE:
        return Outcome(Trouble.GONE, status)
    return Outcome(Trouble.HTTP_ERROR, status, retrying.asked_for(retry_after) if status in SAYING_WHEN else 0.0)
