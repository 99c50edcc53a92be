"""Bodies: at most 1 MiB, measured before anything is parsed, and strict JSON."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from common import strict_json
from common.errors import InvalidInput, PayloadTooLarge

LIMIT = 1024 * 1024


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002 - the framework's signature
    ) -> Any:
        _check_charset(media_type or "")
        raw = read(stream)
        if not raw:
            return {}
        try:
            return strict_json.loads(raw)
        except strict_json.StrictJsonError as error:
            raise InvalidInput(str(error), details={"reason": "bad_json"}) from error


def read(stream: IO[bytes]) -> bytes:
    raw = stream.read(LIMIT + 1)
    if len(raw) > LIMIT:
        raise PayloadTooLarge(LIMIT)
    return raw


def _check_charset(media_type: str) -> None:
    for parameter in media_type.lower().split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in {"utf-8", "utf8"}:
            raise InvalidInput("JSON is sent as UTF-8.", details={"reason": "bad_json"})
