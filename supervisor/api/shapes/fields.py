"""Fields that only the supervisor has."""

import re
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.api.fields import Word
from common.api.value_fields import SecondsGiven
from supervisor import command_lines

IN_QUERY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?s?")
WORDS = {"type": "array", "items": {"type": "string"}}
PAIRS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}


@extend_schema_field({"oneOf": [{"type": "string", "pattern": r"^\d{1,9}(\.0{1,6})? ?s$"}, {"type": "integer"}]})
class WholeSecondsGiven(SecondsGiven):
    """`"30s"` or 30; programs are given no fractions of a second."""

    default_error_messages = {"invalid": 'Give whole seconds, like "30s" or 30.'}

    def to_internal_value(self, data: Any) -> int:
        seconds = super().to_internal_value(data)
        if seconds != int(seconds):
            self.fail("invalid")
        return int(seconds)


@extend_schema_field({"type": "number", "minimum": 0})
class QuerySeconds(serializers.Field[Any, Any, Any, Any]):
    """In a query string: `60`, or `60s`."""

    default_error_messages = {"invalid": "Give seconds, like 60."}

    def to_internal_value(self, data: Any) -> float:
        found = IN_QUERY.fullmatch(data)
        if found is None:
            self.fail("invalid")
        return float(found[1])


class WordOrNull(Word):
    """A word that there is only sometimes; null when there is none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_null": True, **options})

    def to_representation(self, value: Any) -> Any:
        return super().to_representation(value) or None


@extend_schema_field({"oneOf": [WORDS, PAIRS]})
class CommandLine(serializers.Field[Any, Any, Any, Any]):
    """Arguments in their order, or an object of them; given back as the list that the program gets."""

    default_error_messages = {"invalid": "Give a list of texts, or an object of texts, numbers, true, false or null."}

    def to_internal_value(self, data: Any) -> list[str]:
        texts = isinstance(data, list) and all(isinstance(word, str) for word in data)
        pairs = isinstance(data, dict) and not any(isinstance(value, dict | list) for value in data.values())
        if not texts and not pairs:
            self.fail("invalid")
        return command_lines.words(data)
