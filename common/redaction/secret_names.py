"""Which field names hold secrets, independently of their values."""

import re
from functools import lru_cache
from typing import Any

SECRET_NAMES = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|secret|token|api_?key|authorization|cookie|sessionid|csrfmiddlewaretoken"
    r"|private_?key|pepper|digest|otp|recovery_code)s?(?:$|_)"
)
#: Secret names whose value may be a number, unlike `max_tokens`.
SECRET_NUMBERS = re.compile(r"(?:^|_)(?:password|passwd|passphrase|secret|otp|recovery_code)s?(?:$|_)")
WORD_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+")
#: Names that contain such a word but hold no secret.
PLAIN_NAMES = frozenset({"token_type", "tokens", "token_endpoint", "public_id"})
#: Callers of tools choose the names, so the cache is limited.
MAX_CACHED_NAMES, MAX_CACHED_NAME_LENGTH = 4096, 64


def is_secret_name(name: str, value: Any) -> bool:
    is_secret_text, is_secret_number = (
        _classify_cached(name) if len(name) <= MAX_CACHED_NAME_LENGTH else classify_name(name)
    )
    if value is None or isinstance(value, bool):
        return False
    return is_secret_number if isinstance(value, int | float) else is_secret_text


def classify_name(name: str) -> tuple[bool, bool]:
    """Whether a text with this name is a secret, and whether a number is."""
    if name in PLAIN_NAMES:
        return False, False
    words = WORD_BREAKS.sub("_", name).lower()
    return bool(SECRET_NAMES.search(words)), bool(SECRET_NUMBERS.search(words))


_classify_cached = lru_cache(maxsize=MAX_CACHED_NAMES)(classify_name)
