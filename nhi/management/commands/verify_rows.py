"""`manage.py verify_rows [--since T]`: verify the MACs of all rows of both logs."""

import re
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from common.commands import GatehouseCommand
from nhi.audit import verification

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
PROGRESS_INTERVAL = 5.0


class Command(GatehouseCommand):
    help = (
        "Check the MAC of each row of both logs. Exit 1 when a row is broken or names a key that is not configured. "
        "Removed rows are not noticed."
    )

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--since", type=moment, metavar="T",
            help="Only rows of this time or later: 2026-11-20, 2026-11-20T08:00:00Z, or how long ago: 90m, 24h, 7d.",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if not self.report.good:
            sys.exit(1)

    def run(self, **options: Any) -> dict[str, Any]:
        self._next_progress = time.monotonic() + PROGRESS_INTERVAL
        self.report = verification.verify(since=options["since"], progress=self._print_progress)
        return {
            "rows": self.report.rows,
            "broken": [asdict(row) for row in self.report.broken],
            "broken_count": self.report.broken_count,
            "unknown_key": self.report.unknown_key,
            "unknown_keys": sorted(self.report.unknown_keys),
        }

    def _print_progress(self, table: str, checked: int) -> None:
        """Write progress to standard error, because standard output may be JSON."""
        if time.monotonic() >= self._next_progress:
            self._next_progress = time.monotonic() + PROGRESS_INTERVAL
            self.stderr.write(f"{table}: {checked} rows checked", self.style.NOTICE)


def moment(text: str) -> datetime:
    """Parse a time, in UTC unless it has an offset, or a duration before now."""
    try:
        if duration := re.fullmatch(r"([0-9]{1,9})([smhdw])", text):
            return timezone.now() - timedelta(**{UNITS[duration[2]]: int(duration[1])})
        value = parse_datetime(text)
        if value is None and (day := parse_date(text)):
            value = datetime(day.year, day.month, day.day, tzinfo=UTC)
        if value is not None:
            return value if value.tzinfo else value.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    raise ArgumentTypeError(f"{text!r} is neither a time such as 2026-11-20T08:00:00Z nor a duration such as 24h.")
