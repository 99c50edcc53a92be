"""Secrets are taken out before anything is stored, logged or shown: by key name, by known value, by token shape."""

import re
from typing import Any, overload

MASK = "[REDACTED:SECRET]"
SECRET_NAMES = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|secret|token|api_?key|authorization|cookie|sessionid|csrfmiddlewaretoken"
    r"|private_?key|pepper|digest|otp|recovery_code)s?(?:$|_)"
)
#: Of those, the ones whose value may be a number; `max_tokens` is none.
SECRET_NUMBERS = re.compile(r"(?:^|_)(?:password|passwd|passphrase|secret|otp|recovery_code)s?(?:$|_)")
WORD_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+")
#: Names that hold such a word and no secret.
PLAIN_NAMES = frozenset({"token_type", "tokens", "token_endpoint", "public_id"})
# A credential's public id may be read by anyone; its secret and checksum may not.
OWN_TOKEN = re.compile(r"(nhi_(?:agt|svc|usr)_[0-9A-Za-z]{1,32})_[0-9A-Za-z]{1,46}")
SHORT_TOKEN = re.compile(r"nhi_tok_[0-9A-Za-z_.-]+")
# Something that no word of a sentence has: "basic housekeeping" stays.
BEARER = re.compile(r"\b((?i:bearer|basic))\s+(?=\S*(?:[0-9+=_]|[a-z][A-Z]))[A-Za-z0-9._~+/=-]{8,}")
URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@/]+@")


def redact_text(text: str) -> str:
    text = OWN_TOKEN.sub(rf"\1_{MASK}", text)
    text = SHORT_TOKEN.sub(MASK, text)
    text = BEARER.sub(rf"\1 {MASK}", text)
    return URL_PASSWORD.sub(rf"\1{MASK}@", text)


@overload
def redact(value: dict[str, Any]) -> dict[str, Any]: ...
@overload
def redact(value: Any) -> Any: ...
def redact(value: Any) -> Any:
    """The same structure without its secrets."""
    if isinstance(value, dict):
        return {redact(key): MASK if _is_secret(str(key), item) else redact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def _is_secret(name: str, value: Any) -> bool:
    if name in PLAIN_NAMES or value is None or isinstance(value, bool):
        return False
    names = SECRET_NUMBERS if isinstance(value, int | float) else SECRET_NAMES
    return bool(names.search(WORD_BREAKS.sub("_", name).lower()))
