"""What goes in and what comes out. Shapes translate; none of them creates or updates a row."""

from typing import Any, ClassVar

from rest_framework import serializers

from common.api.fields import Identifier, Text


class Shape(serializers.Serializer[Any]):
    """What an answer looks like: explicit fields and an example."""

    example: ClassVar[Any] = {}


class Input(serializers.Serializer[Any]):
    """What a body may hold. A name that is not listed is refused, so nothing that the server sets can be sent."""

    example: ClassVar[dict[str, Any]] = {}
    strict: ClassVar[bool] = True
    default_error_messages = {"invalid": "Send a JSON object."}

    def to_internal_value(self, data: Any) -> Any:
        unknown = self._unknown(data)
        try:
            validated = super().to_internal_value(data)
        except serializers.ValidationError as error:
            by_field: Any = error.detail
            raise serializers.ValidationError({**unknown, **by_field}) from error
        if unknown:
            raise serializers.ValidationError(unknown)
        return validated

    def _unknown(self, data: Any) -> dict[str, Any]:
        if not self.strict or not isinstance(data, dict):
            return {}
        return {name[:80]: ["This key is not known here."] for name in data if name not in self.fields}


class Nothing(Input):
    """The body of a verb that needs none: empty, or an empty object."""


class Filters(serializers.Serializer[Any]):
    """What a list can be asked for in the query. Keys that are not listed are ignored."""


class Reason(Input):
    """Why, in a sentence; it is kept on record."""

    reason = Text(help_text="Why, in at most 500 characters; it is kept on record.")
    example = {"reason": "Token found in a public log"}


class FieldProblem(Shape):
    field = Text(help_text="The key that is wrong; dotted inside of objects.")
    message = Text()


class ProblemDetails(Shape):
    """More keys may stand here, by `reason`."""

    reason = Text(help_text="A stable code.")
    fields = FieldProblem(many=True)  # type: ignore[assignment]  # its name on the wire; the metaclass takes it away


class Problem(Shape):
    """Every refusal."""

    error_code = Text()
    message = Text(help_text="One sentence for a person.")
    details = ProblemDetails()
    request_id = Identifier()
