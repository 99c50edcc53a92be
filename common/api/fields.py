"""Fields that take JSON's own types and nothing that merely looks like them: `"5"` is no number, `1` is no boolean."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.ids import parse_uuid


class Text(serializers.CharField):
    """Kept exactly as sent. How long and of which characters is the verb's to say."""

    default_error_messages = {"invalid": "Give a text."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_blank": True, "trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class Whole(serializers.IntegerField):
    default_error_messages = {"invalid": "Give a whole number."}

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float) or data != int(data):
            self.fail("invalid")
        return int(data)


class Flag(serializers.BooleanField):
    default_error_messages = {"invalid": "Give true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return bool(data)


#: Words that a refusal names, where there are no more.
MOST_NAMED = 12


class Word(serializers.ChoiceField):
    """One of a closed vocabulary."""

    default_error_messages = {"invalid_choice": "Choose one of the values that the documentation lists."}

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, **options)
        if len(self.choices) <= MOST_NAMED:
            self.error_messages["invalid_choice"] = f"Use one of {', '.join(map(str, self.choices))}."

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=data)
        return super().to_internal_value(data)


class Identifier(serializers.UUIDField):
    default_error_messages = {"invalid": "Give a UUID."}

    def to_internal_value(self, data: Any) -> UUID:
        parsed = parse_uuid(data) if isinstance(data, str) else None
        if parsed is None:
            self.fail("invalid")
        return parsed


class Moment(serializers.DateTimeField):
    """ISO 8601 with its offset: a time without one means another moment to every reader. Written with `Z`."""

    default_error_messages = {"invalid": "Give a time like 2026-11-18T10:00:00Z, with its offset."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"default_timezone": UTC, **options})

    def to_internal_value(self, value: Any) -> datetime:
        parsed = _moment(value)
        if parsed is None:
            self.fail("invalid")
        return parsed


class QueryMoment(Moment):
    """The same in a query string, where an unescaped `+` arrives as a space."""

    def to_internal_value(self, value: Any) -> datetime:
        return super().to_internal_value(value.replace(" ", "+") if "T" in value else value)


@extend_schema_field({"type": "object", "additionalProperties": {}})
class Mapping(serializers.Field[Any, Any, Any, Any]):
    """Any JSON object."""

    default_error_messages = {"invalid": "Give a JSON object."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class Texts(serializers.ListField):
    child = Text()

    default_error_messages = {"not_a_list": "Give a list."}


class Identifiers(serializers.ListField):
    child = Identifier()

    default_error_messages = {"not_a_list": "Give a list."}


def _moment(value: Any) -> datetime | None:
    try:
        parsed = parse_datetime(value) if isinstance(value, str) else None
        return parsed.astimezone(UTC) if parsed is not None and parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
