"""Counts failed authentications per public id (or "unknown"), source and minute."""

from datetime import datetime

from django.db import DatabaseError, connection

from common import context
from common.errors import RecordUnavailable
from common.ids import uuid7
from nhi.models import RefusedAuthentication

UNKNOWN_PUBLIC_ID = "unknown"
# Valid on both databases. The ORM cannot express an upsert that increments.
COUNT_QUERY = """
INSERT INTO nhi_refused_authentication (id, public_id, source, minute, reason, count) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (public_id, source, minute)
DO UPDATE SET count = nhi_refused_authentication.count + 1, reason = excluded.reason
"""


def count_failure(public_id: str, reason: str, at: datetime) -> None:
    """Count one refusal. Raises RecordUnavailable if the database cannot store it."""
    minute = at.replace(second=0, microsecond=0)
    values = (uuid7(), public_id or UNKNOWN_PUBLIC_ID, context.current().source, minute, reason, 1)
    columns = RefusedAuthentication._meta.concrete_fields
    ready = [field.get_db_prep_value(value, connection) for field, value in zip(columns, values, strict=True)]
    try:
        with connection.cursor() as cursor:
            cursor.execute(COUNT_QUERY, ready)
    except DatabaseError as error:
        raise RecordUnavailable from error
