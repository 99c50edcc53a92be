"""Parses request headers and records repeated ones: implementations differ in using the first or the last copy."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

ROUTING_HEADERS = ("mcp-protocol-version", "mcp-method", "mcp-name")
SINGLE_HEADERS = frozenset({*ROUTING_HEADERS, "authorization", "content-type", "host", "origin", "x-request-id"})
LIST_HEADERS = frozenset({"accept", "x-forwarded-for"})
KNOWN_HEADERS = {name.encode(): name for name in SINGLE_HEADERS | LIST_HEADERS}
ENCODED_PREFIX, ENCODED_SUFFIX = "=?base64?", "?="
EVENT_STREAM_TYPE, JSON_TYPE = "text/event-stream", "application/json"


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    values: dict[str, str]
    repeated: frozenset[str] = frozenset()

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    def matches(self, name: str, value: str) -> bool:
        """Whether the header occurs once and its decoded value equals the value in the body."""
        return name not in self.repeated and decode_value(self.values.get(name)) == value


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for raw_name, value in headers:
        name = KNOWN_HEADERS.get(raw_name) or KNOWN_HEADERS.get(raw_name.lower())
        if name is None:
            continue
        text = value.decode("latin-1").strip(" \t")
        if name not in values:
            values[name] = text
        elif name in LIST_HEADERS:
            values[name] += f", {text}"
        else:
            repeated.add(name)
    return RequestHeaders(values, frozenset(repeated))


def decode_value(value: str | None) -> str | None:
    """Decode a header value. Return None if it is absent or its encoding is invalid."""
    if value is None or not value.startswith(ENCODED_PREFIX) or not value.endswith(ENCODED_SUFFIX):
        return value
    payload = value[len(ENCODED_PREFIX) : -len(ENCODED_SUFFIX)]
    try:
        raw = base64.b64decode(payload, validate=True)
        # Accept only the canonical encoding: spare bits before the padding would give one name several encodings.
        return raw.decode() if base64.b64encode(raw).decode() == payload else None
    except (binascii.Error, ValueError):
        return None


@lru_cache(maxsize=64)
def accepts_json_and_events(accept: str) -> bool:
    """Whether the client accepts both JSON and event streams: the form of the answer is decided during the call."""
    ranges = {_media_type(part) for part in accept.split(",") if not _has_zero_weight(part)}
    return all(
        ranges & {media_type, f"{media_type.partition('/')[0]}/*", "*/*"}
        for media_type in (JSON_TYPE, EVENT_STREAM_TYPE)
    )


@lru_cache(maxsize=64)
def is_json_content_type(content_type: str) -> bool:
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "")
    return media_type.strip().lower() == JSON_TYPE and charset in {"", "charset=utf-8"}


def _media_type(part: str) -> str:
    return part.partition(";")[0].strip().lower()


def _has_zero_weight(part: str) -> bool:
    weights = [word.strip().lower() for word in part.split(";")[1:]]
    return any(word.startswith("q=") and not word[2:].strip("0.") for word in weights)
