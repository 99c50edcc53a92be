"""Between tests the append-only tables are emptied; the product has no way to do that, on purpose."""

from typing import Any

from django.core.management.commands.flush import Command
from django.db import connections

from nhi.audit import append_only_triggers


def drop(alias: str) -> None:
    connection = connections[alias]
    there = set(connection.introspection.table_names())
    on = " ON {table}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for table in there.intersection(append_only_triggers.LOG_TABLES):
            for suffix in append_only_triggers.TRIGGER_SUFFIXES[connection.vendor]:
                cursor.execute(f"DROP TRIGGER IF EXISTS {table}{suffix}{on.format(table=table)}")


class Flush(Command):
    """Django's `flush`, whose own post_migrate puts the guards back."""

    def handle(self, **options: Any) -> None:
        drop(options["database"])
        super().handle(**options)
