"""A house as an earlier version left it, brought up to date."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


@contextmanager
def back_at(app: str, migration: str) -> Iterator[None]:
    """Inside, the app's tables are as this migration left them; afterwards, as the newest does."""
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    _migrate([(app, migration)])
    try:
        yield
    finally:
        # Of every app: migrations of others that depend on this one's were taken back with them.
        _migrate(newest)


def _migrate(targets: list[tuple[str, str]]) -> None:
    MigrationExecutor(connection).migrate(targets)
