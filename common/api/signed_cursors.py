"""Where the next page begins: signed, for one caller and one endpoint, for an hour."""

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass

SignFunction = Callable[[bytes], bytes]
CURSOR_LIFETIME_SECONDS = 3600
MAC_BYTES = 16
MAX_CURSOR_LENGTH = 2000


@dataclass(frozen=True)
class SignedCursors:
    """The cursors of one caller at one endpoint; to anybody else they mean nothing."""

    sign: SignFunction
    caller: str
    endpoint: str

    def encode_cursor(self, name: str, *, now: float) -> str:
        """The cursor of the page that begins behind `name`."""
        payload = int(now + CURSOR_LIFETIME_SECONDS).to_bytes(6, "big") + name.encode()
        return base64.urlsafe_b64encode(self._sign_payload(payload) + payload).decode().rstrip("=")

    def decode_cursor(self, cursor: str, *, now: float) -> str | None:
        """The name behind which the page begins; None for a cursor that is not ours, not theirs, or too old."""
        if len(cursor) > MAX_CURSOR_LENGTH:
            return None
        try:
            raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            name = raw[MAC_BYTES + 6 :].decode()
        except ValueError:
            return None
        is_authentic = hmac.compare_digest(raw[:MAC_BYTES], self._sign_payload(raw[MAC_BYTES:]))
        return name if is_authentic and int.from_bytes(raw[MAC_BYTES : MAC_BYTES + 6], "big") >= now else None

    def _sign_payload(self, payload: bytes) -> bytes:
        # Neither a caller's id nor a server's name holds a line feed, so the parts cannot run into each other.
        return self.sign(b"\n".join((self.caller.encode(), self.endpoint.encode(), payload)))[:MAC_BYTES]
