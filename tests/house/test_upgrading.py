"""An upgrade as the documents tell it leaves the application the rights that it needs, and no others."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import ProgrammingError, connection, transaction

from tests.services.upgrades import back_at

pytestmark = [
    pytest.mark.capability("OPS-02"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "production.md"
APP = f"app_of_a_test_{os.getpid()}"
LOGS = ("nhi_audit_event", "nhi_invocation_log")


def documented() -> list[str]:
    """The statements of the block under Database, for who owns the tables here and for a role of this test's own."""
    block = PAGE.read_text().partition("```sql")[2].partition("```")[0]
    ours = block.replace("gatehouse_owner", "CURRENT_USER").replace("gatehouse_app", APP)
    return [one for one in ours.split(";") if one.strip()]


def do(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def an_application() -> Iterator[None]:
    if connection.vendor != "postgresql":
        pytest.skip("An embedded database has no roles")
    do(f"CREATE ROLE {APP}")
    try:
        yield
    finally:
        do(f"DROP OWNED BY {APP}", f"DROP ROLE {APP}")


def may(statement: str) -> bool:
    try:
        with transaction.atomic():
            do(f"SET LOCAL ROLE {APP}", statement)
    except ProgrammingError as error:
        assert "permission denied" in str(error)
        return False
    return True


def test_the_application_may_use_a_table_that_an_upgrade_adds() -> None:
    with an_application():
        with back_at("nhi", "0006_grpc_process"):
            do(*documented())
        for statement in ("SELECT 1 FROM nhi_last_look", "DELETE FROM nhi_last_look"):
            assert may(statement), statement


def test_the_record_is_only_added_to_before_and_after_an_upgrade() -> None:
    with an_application():
        for _ in range(2):
            do(*documented())
            for log in LOGS:
                assert may(f"SELECT 1 FROM {log}")
                assert not may(f"UPDATE {log} SET id = id")
                assert not may(f"DELETE FROM {log}")
