"""Where the next page begins: signed, for one caller and one endpoint, for an hour."""

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass

Sign = Callable[[bytes], bytes]
SECONDS = 3600
MAC = 16
LONGEST = 2000


@dataclass(frozen=True)
class Cursors:
    """The cursors of one caller at one endpoint; to anybody else they mean nothing."""

    sign: Sign
    caller: str
    endpoint: str

    def after(self, name: str, *, now: float) -> str:
        """The cursor of the page that begins behind `name`."""
        told = int(now + SECONDS).to_bytes(6, "big") + name.encode()
        return base64.urlsafe_b64encode(self._mac(told) + told).decode().rstrip("=")

    def read(self, cursor: str, *, now: float) -> str | None:
        """The name behind which the page begins; None for a cursor that is not ours, not theirs, or too old."""
        if len(cursor) > LONGEST:
            return None
        try:
            raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            name = raw[MAC + 6 :].decode()
        except ValueError:
            return None
        fits = hmac.compare_digest(raw[:MAC], self._mac(raw[MAC:]))
        return name if fits and int.from_bytes(raw[MAC : MAC + 6], "big") >= now else None

    def _mac(self, told: bytes) -> bytes:
        # Neither a caller's id nor a server's name holds a line feed, so the parts cannot run into each other.
        return self.sign(b"\n".join((self.caller.encode(), self.endpoint.encode(), told)))[:MAC]
