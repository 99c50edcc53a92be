"""Media types of what is said: which a message has, and whether they are among those that an agent takes."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

#: One type, or all of a kind: `text/plain`, `image/*`.
TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,62})")
TEXT, JSON, BYTES = "text/plain", "application/json", "application/octet-stream"


def of_message(message: Mapping[str, Any]) -> list[str]:
    """Of each part, in A2A 1.0's JSON; what says none has the usual one of its kind."""
    parts: Sequence[Mapping[str, Any]] = message.get("parts") or ()
    return [str(part.get("mediaType") or _usual(part)) for part in parts]


def takes(accepted: Collection[str], given: str) -> bool:
    """Nothing listed takes everything."""
    plain = given.partition(";")[0].strip().lower()
    kind = f"{plain.partition('/')[0]}/*"
    return not accepted or plain in accepted or kind in accepted


def _usual(part: Mapping[str, Any]) -> str:
    if "text" in part:
        return TEXT
    return JSON if "data" in part else BYTES
