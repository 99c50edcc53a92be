"""Fields that only the gateway has."""

import math
import re
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.api.fields import Text

WRITTEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?s")


@extend_schema_field({"oneOf": [{"type": "string", "pattern": r"^\d{1,9}(\.\d{1,6})? ?s$"}, {"type": "number"}]})
class SecondsGiven(serializers.Field[Any, Any, Any, Any]):
    """A time in seconds: `"30s"`, or a number."""

    default_error_messages = {"invalid": 'Give seconds, like "30s" or 30.'}

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, str) and (match := WRITTEN.fullmatch(data)):
            return float(match[1])
        if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
            self.fail("invalid")
        return float(data)


@extend_schema_field({"type": "string", "examples": ["30s"]})
class Seconds(serializers.Field[Any, Any, Any, Any]):
    """The same as it is given back: `"30s"`."""

    def to_representation(self, value: float) -> str:
        return f"{value:.15g}s"


@extend_schema_field({"type": ["string", "null"]})
class Said(serializers.Field[Any, Any, Any, Any]):
    """A text that there is only sometimes; null when there is none."""

    def to_representation(self, value: str) -> str | None:
        return value or None


@extend_schema_field({"type": "string", "format": "duration"})
class Duration(serializers.Field[Any, Any, Any, Any]):
    """Whole seconds as ISO 8601 writes them: `PT30S`."""

    def to_representation(self, value: int) -> str:
        return f"PT{value}S"


class Pairs(serializers.DictField):
    """Names and texts."""

    child = Text()

    default_error_messages = {"not_a_dict": "Give a JSON object of texts."}


class NullableTexts(serializers.DictField):
    """Names and texts; null takes a name away."""

    child = Text(allow_null=True)

    default_error_messages = {"not_a_dict": "Give a JSON object of texts."}


class Number(serializers.FloatField):
    """Any number; never a text or a boolean that looks like one."""

    default_error_messages = {"invalid": "Give a number."}

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)
