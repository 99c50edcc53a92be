"""The other side of a code: what an app on a phone computes. Written from RFC 6238, with no line of the product's."""

import base64
import hashlib
import hmac
import struct
import time


def code(secret: str, *, steps: int = 0) -> str:
    counter = int(time.time()) // 30 + steps
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", counter), hashlib.sha1)
    offset = digest[-1] & 15
    return f"{(int.from_bytes(digest[offset : offset + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06d}"
