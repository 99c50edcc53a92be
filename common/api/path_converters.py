"""Ids in paths."""

from uuid import UUID

from django.urls import register_converter


class Identifier:
    """A UUID in its usual form, in small or capital letters."""

    regex = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

    def to_python(self, value: str) -> UUID:
        return UUID(value)

    def to_url(self, value: UUID) -> str:
        return str(value)


register_converter(Identifier, "id")
