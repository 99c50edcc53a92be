"""A house as an earlier version left it, brought up to date."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


@contextmanager
def back_at(app: str, migration: str) -> Iterator[None]:
    """Inside, the app's tables are as this migration left them; afterwards, as the newest does."""
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes(app)[0][1]
    _migrate(app, migration)
    try:
        yield
    finally:
        _migrate(app, newest)


def _migrate(app: str, to: str) -> None:
    MigrationExecutor(connection).migrate([(app, to)])
