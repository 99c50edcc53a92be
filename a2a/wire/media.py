"""Media types of what is said, and whether they are among those that an agent takes."""

import re
from collections.abc import Collection

#: One type, or all of a kind: `text/plain`, `image/*`.
TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,62})")
TEXT, JSON, BYTES = "text/plain", "application/json", "application/octet-stream"


def takes(accepted: Collection[str], given: str) -> bool:
    """Nothing listed takes everything."""
    plain = given.partition(";")[0].strip().lower()
    kind = f"{plain.partition('/')[0]}/*"
    return not accepted or plain in accepted or kind in accepted
