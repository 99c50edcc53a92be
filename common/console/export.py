"""CSV exports of lists, with cells that a spreadsheet does not execute as formulas."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpResponse

from common.console.lists import Column

MOST_ROWS = 50_000
#: A spreadsheet reads a cell that starts with one of these as a formula.
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")


def safe(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(DANGEROUS) else text


def as_csv(name: str, columns: Sequence[Column], rows: Iterable[Any]) -> HttpResponse:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow([safe(column.label) for column in columns])
    writer.writerows([safe(column.text(row)) for column in columns] for row in rows)
    return HttpResponse(
        lines.getvalue(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )
