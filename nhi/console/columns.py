"""Table columns shared by lists."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.utils.html import format_html

from common.console import times
from common.console.lists import Column
from common.templatetags.console import when

Read = Callable[[Any], Any]


def plain(label: str, read: Read, *, sort: str = "", narrow: bool = False) -> Column:
    """Return a column with plain text, or a dash if the text is empty."""
    return Column(
        label, lambda row: read(row) or format_html('<span class="gh-subtle">{}</span>', "\u2013"), read, sort, narrow
    )


def moment(
    label: str, read: Callable[[Any], datetime | None], *, sort: str = "", form: str = "relative",
    missing: str = "never", narrow: bool = False,
) -> Column:  # fmt: skip
    def text(row: Any) -> str:
        at = read(row)
        return times.stamp(at) if at else ""

    return Column(label, lambda row: when(read(row), form, missing), text, sort, narrow)


def state(label: str, badge_of: Read, draw: Read, *, sort: str = "", narrow: bool = True) -> Column:
    """Return a column with a badge. The export contains its label."""
    return Column(label, draw, lambda row: badge_of(row).label, sort, narrow)
