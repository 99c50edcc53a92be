"""Input checks shared by all operations; collects every problem and raises once."""

import ipaddress
import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from common import canonical_json
from common.db.clock import MAX_TIME
from common.errors import FieldError, InvalidInput
from common.redaction import redact_text
from nhi.decisions import argument_limits

MAX_REASON_LENGTH = 500
MAX_ACTION_LENGTH = 200
MAX_SCHEMA_BYTES = 64 * 1024


class Problems:
    """Collects problems of an input; `raise_if_any` raises all of them at once."""

    def __init__(self) -> None:
        self._errors: list[FieldError] = []

    def add(self, field: str, message: str) -> None:
        self._errors.append(FieldError(field, message))

    def unless(self, condition: object, field: str, message: str) -> None:
        if not condition:
            self.add(field, message)

    def raise_if_any(self) -> None:
        if self._errors:
            first = self._errors[0]
            more = f" And {len(self._errors) - 1} more." if len(self._errors) > 1 else ""
            raise InvalidInput(f"{first.field}: {first.message}{more}", fields=self._errors)

    def check_line(self, field: str, value: str, *, max_length: int, required: bool = False) -> None:
        """Check that the value is one line of ordinary text without secrets."""
        self.unless(len(value) <= max_length, field, f"Use at most {max_length} characters.")
        self.unless(value.strip() or not required, field, "Say something here; it is kept on record.")
        self.unless(is_plain(value), field, "Leave out control characters and invisible marks.")
        self.unless(redact_text(value) == value, field, "This holds a token or a password; leave it out.")

    def check_reason(self, value: str, *, required: bool = True) -> None:
        self.check_line("reason", value, max_length=MAX_REASON_LENGTH, required=required)

    def check_future(self, field: str, value: datetime | None) -> None:
        self.unless(value is None or value > timezone.now(), field, "Choose a time in the future.")
        self.unless(value is None or value < MAX_TIME, field, f"Choose a time before the year {MAX_TIME.year}.")

    def check_positive(self, field: str, value: int | None) -> None:
        self.unless(
            value is None or 1 <= value <= 2_000_000_000, field, "Use a whole number of at least 1, or leave it out."
        )

    def check_within(self, field: str, value: datetime | None, max_duration: timedelta) -> None:
        is_within = value is None or value <= timezone.now() + max_duration
        self.unless(is_within, field, f"Choose a time within {max_duration.days} days.")

    def check_argument_limit(
        self, field: str, value: Any, tool_schemas: Sequence[dict[str, Any]], *, tool: str
    ) -> None:
        """Check that the value is a usable JSON Schema that restricts the arguments of the tool."""
        problem = (
            ""
            if value is None
            else _storage_problem(value) or argument_limits.find_problem(value, tool_schemas, tool=tool)
        )
        if problem:
            self.add(field, problem)


def _storage_problem(value: Any) -> str:
    if not isinstance(value, dict):
        return "Give a JSON Schema object."
    try:
        encoded = canonical_json.encode(value)
    except canonical_json.CanonicalizationError as error:
        return str(error)
    if len(encoded) > MAX_SCHEMA_BYTES:
        return "The schema is larger than 64 KiB."
    # PostgreSQL's JSON cannot store NUL.
    return "Leave out the NUL character." if b"\\u0000" in encoded else ""


def is_plain(text: str) -> bool:
    """Whether the text has no control character, lone surrogate or invisible or direction mark."""
    return not any(unicodedata.category(mark) in {"Cc", "Cs", "Cf"} for mark in text)


def parse_networks(problems: Problems, field: str, values: list[str]) -> list[str]:
    """Return the networks in canonical notation and collect the problems of invalid ones."""
    problems.unless(len(values) <= 50, field, "Name at most 50 networks.")
    networks = []
    for value in values[:50]:
        try:
            networks.append(str(ipaddress.ip_network(value, strict=False)))
        except ValueError:
            problems.add(field, f"{value[:60]!r} is no network; write one like 10.0.0.0/8 or 192.0.2.7.")
    return networks


SLUG_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
TOOL_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,62}__[A-Za-z0-9_./:-]{1,127}")
