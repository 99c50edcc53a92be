"""A worker's process keeps its connections from one task to the next: threads that carry on after a task use them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from celery.fixups.django import DjangoWorkerFixup
from django.conf import settings
from django.db import connection

from config.celery import app, keep_the_pool

pytestmark = pytest.mark.capability("OPS-03")


class Prefork(DjangoWorkerFixup):
    """What Celery does about the database in each process of a worker."""

    def _is_prefork(self) -> bool:
        return True


def looks() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
    connection.close()


def test_a_thread_that_outlives_its_task_still_reaches_the_database(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "DATABASES", settings.DATABASES)
    keep_the_pool()
    looks()
    pool = getattr(connection, "pool", None)
    with ThreadPoolExecutor(1) as outlives:
        for _ in range(3):
            Prefork(app).close_database()
            outlives.submit(looks).result()
    # SQLite has none. Of another one, whoever was about to use this would know nothing.
    assert getattr(connection, "pool", None) is pool
    assert pool is None or not pool.closed
