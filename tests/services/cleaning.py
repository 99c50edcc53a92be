"""What a test has committed is taken away after it: only from the tables that have rows, which are few.

Django's own way empties every table and lets every app set itself up again, most of a second for each test. What the
apps set up is left as it stands here, and looked at: a test that changed that is cleaned up after in Django's way.
"""

from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase

from nhi.audit import append_only_triggers as product
from tests.services import guards

#: What migrations and `post_migrate` write, and no test is meant to.
SET_UP = ("django_migrations", "django_content_type", "auth_permission", "auth_group", "auth_group_permissions")
_slowly = TransactionTestCase._fixture_teardown
_pristine: dict[str, list[Any]] = {}


def begin() -> None:
    """Once the databases are set up, and before any test."""
    for alias in connections:
        _pristine[alias] = _set_up(connections[alias])
    TransactionTestCase._fixture_teardown = clean  # type: ignore[method-assign]  # that is the point


def end() -> None:
    """Before the databases are dropped: a thread that a test cut off in the middle still has its connection."""
    for alias in connections:
        if connections[alias].vendor == "postgresql":
            with connections[alias].cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )


def clean(test: TransactionTestCase) -> None:
    usual = not test.reset_sequences and test.available_apps is None and not test.serialized_rollback
    if usual and all(_set_up(connections[alias]) == _pristine[alias] for alias in connections):
        for alias in connections:
            _empty(connections[alias])
    else:
        _slowly(test)


def _empty(connection: BaseDatabaseWrapper) -> None:
    filled = _filled(connection)
    guarded = [table for table in product.LOG_TABLES if table in filled]
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if guarded:
            guards.drop(connection.alias)
        for table in filled:
            # What refers to what is looked at when all of them are empty.
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
        if guarded:
            product.install(connection)


def _filled(connection: BaseDatabaseWrapper) -> list[str]:
    there = connection.introspection.django_table_names(only_existing=True, include_views=False)
    asked = [
        f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {connection.ops.quote_name(table)})"
        for table in there if table not in SET_UP
    ]  # fmt: skip
    found = []
    with connection.cursor() as cursor:
        # In parts: databases bound how many selects one may be made of.
        for first in range(0, len(asked), 50):
            cursor.execute(" UNION ALL ".join(asked[first : first + 50]))
            found += [row[0] for row in cursor.fetchall()]
    return found


def _set_up(connection: BaseDatabaseWrapper) -> list[Any]:
    found = []
    with connection.cursor() as cursor:
        for table in SET_UP[1:]:
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
            found.append(cursor.fetchall())
    return found
