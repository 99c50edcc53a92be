"""The database's clock. It decides expiry and quotas, so that all processes use the same time."""

from datetime import UTC, datetime

from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive, make_aware

from common.fastsql import prepared_statements

#: The limits of times in queries. They are far from the ends of the calendar, where conversion to some zones fails.
MIN_TIME, MAX_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def database_now() -> datetime:
    sqlite = prepared_statements.get_connection().vendor == "sqlite"
    sql = "SELECT STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')" if sqlite else "SELECT STATEMENT_TIMESTAMP()"
    return parse_database_time(prepared_statements.fetch_rows(sql, [])[0][0])


def parse_database_time(value: datetime | str) -> datetime:
    """Convert a time as a database writes it, in a column or inside JSON, to an aware datetime.

    SQLite writes UTC without an offset. The active time zone belongs to the reader and must not change an expiry.
    """
    parsed = value if isinstance(value, datetime) else parse_datetime(value)
    if parsed is None:
        raise ValueError(f"not a time: {value!r}")
    return make_aware(parsed, UTC) if is_naive(parsed) else parsed


def start_of_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
