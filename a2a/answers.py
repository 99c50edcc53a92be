"""How a receiver's answer begins: for the log of attempts, without what it was told in confidence.

Read after it was judged, for a moment and no more than `MOST` bytes: what it says changes nothing.
"""

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress

import aiohttp

from common.redaction import Redactor

MOST = 1024
#: Seconds. Who has answered and then says nothing more is not waited for.
PATIENCE = 1.0
#: Unpacked it could be anything, so it is left alone.
PLAIN = frozenset({"", "identity"})
#: Where one thing that may be a secret ends and another begins.
ENDS = re.compile(r"""[\s,;"'&<>]""")
#: What is dropped at a cut where none ends.
LONGEST_PART = 256
NUL, ITS_PICTURE = "\0", "\u2400"


async def beginning(response: aiohttp.ClientResponse) -> bytes:
    """One byte more than is kept tells that it goes on."""
    if response.headers.get("Content-Encoding", "").strip().lower() not in PLAIN:
        return b""
    read = bytearray()
    # It was heard; that it breaks off is no trouble of ours.
    with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
        async with asyncio.timeout(PATIENCE):
            while len(read) <= MOST and (part := await response.content.read(MOST + 1 - len(read))):
                read += part
    return bytes(read)


def kept(read: bytes, secrets: Iterable[str]) -> str:
    """As it may be stored: without secrets, and where it was cut without what may be the beginning of one."""
    text = Redactor(known=frozenset(secrets)).text(read[:MOST].decode(errors="replace"))
    whole = text.replace(NUL, ITS_PICTURE)
    return (_shortened(whole) if len(read) > MOST else whole)[:MOST]


def _shortened(text: str) -> str:
    last = text[-LONGEST_PART:]
    end = max((match.end() for match in ENDS.finditer(last)), default=0)
    return text[: len(text) - len(last) + end]
