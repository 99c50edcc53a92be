"""The database's clock decides expiry and quotas, so that every process means the same moment."""

from datetime import UTC, datetime

from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive, make_aware

from common.fastsql import statements

#: What can be asked for lies between these: far from the ends of the calendar, which not every zone can say.
MIN_TIME, MAX_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def database_now() -> datetime:
    sqlite = statements.get_connection().vendor == "sqlite"
    sql = "SELECT STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')" if sqlite else "SELECT STATEMENT_TIMESTAMP()"
    return parse_database_time(statements.fetch_rows(sql, [])[0][0])


def parse_database_time(value: datetime | str) -> datetime:
    """A time as a database writes it, in a column or inside JSON, as an aware one.

    SQLite writes UTC without saying so. The active time zone is the reader's and must not move an expiry.
    """
    parsed = value if isinstance(value, datetime) else parse_datetime(value)
    if parsed is None:
        raise ValueError(f"not a time: {value!r}")
    return make_aware(parsed, UTC) if is_naive(parsed) else parsed


def start_of_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
