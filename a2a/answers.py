"""How a receiver's answer begins: for the log of attempts, without what it was told in confidence.

Read after it was judged, for a moment and no more than `READ` bytes: what it says changes nothing.
"""

import asyncio
import codecs
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp

from common.redaction import Redactor

#: Characters that are kept.
MOST = 1024
#: Bytes that are looked at, so that a secret which goes on behind what is kept is seen whole.
READ = 16 * 1024
#: Seconds. Who has answered and then says nothing more is not waited for.
PATIENCE = 1.0
#: Unpacked it could be anything, so it is left alone.
PLAIN = frozenset({"", "identity"})
NUL, ITS_PICTURE = "\0", "\u2400"
DECODER = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True)
class Heard:
    """As it came."""

    read: bytes = field(default=b"", repr=False)
    #: Whether it ended there by itself; else it went on, fell silent or broke off.
    ended: bool = True


NOTHING = Heard()


async def beginning(response: aiohttp.ClientResponse) -> Heard:
    """One byte more than is looked at tells that it goes on."""
    if response.headers.get("Content-Encoding", "").strip().lower() not in PLAIN:
        return NOTHING
    read, ended = bytearray(), False
    # It was heard; that it breaks off is no trouble of ours.
    with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
        async with asyncio.timeout(PATIENCE):
            while len(read) <= READ and (part := await response.content.read(READ + 1 - len(read))):
                read += part
            ended = len(read) <= READ
    return Heard(bytes(read), ended)


def kept(heard: Heard, secrets: Iterable[str]) -> tuple[str, bool]:
    """As it may be stored, without secrets or halves of them, and whether something of it is missing at its end."""
    # Half a character at a cut is none.
    text = DECODER("replace").decode(heard.read, final=heard.ended)
    redactor = Redactor(secret_values=frozenset(secrets))
    clean = redactor.redact_text(text) if heard.ended else redactor.redact_truncated_text(text)
    return clean[:MOST].replace(NUL, ITS_PICTURE), not heard.ended or len(clean) > MOST
