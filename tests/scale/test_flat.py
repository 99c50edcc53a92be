"""A decision costs the same with 200 identities and with 10,000, with 1,000 grants and with 100,000."""

from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker

from nhi.models import Identity, ToolPermission
from tests.scale import plans, town
from tests.scale.town import Town

pytestmark = [pytest.mark.capability("NHI-10"), pytest.mark.both_databases, pytest.mark.django_db]
SMALL, LARGE = (200, 1_000), (10_000, 100_000)


def asked(there: Town, target: Identity) -> tuple[str, plans.Plan, int]:
    """What is decided, how, and in how many queries."""
    with CaptureQueriesContext(connection) as captured:
        reason = there.ask(target).reason
    (query,) = [each["sql"] for each in captured.captured_queries]
    return reason, plans.of(query), len(captured)


def measured(there: Town) -> dict[str, tuple[str, plans.Plan, int]]:
    return {name: asked(there, getattr(there, name)) for name in ("granted", "by_role", "never")}


@pytest.fixture(scope="module")
def told(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[dict[str, dict[str, tuple[str, plans.Plan, int]]]]:
    """What the same questions cost in a small and in a large town, each loaded in a transaction that is undone."""
    found = {}
    with django_db_blocker.unblock():
        for name, size in (("small", SMALL), ("large", LARGE)):
            with transaction.atomic():
                there = town.build(*size)
                assert Identity.objects.count() == size[0]
                assert ToolPermission.objects.count() == size[1]
                found[name] = measured(there)
                transaction.set_rollback(True)
        yield found


def test_a_decision_is_one_query_at_any_size(told: dict[str, dict[str, tuple[str, plans.Plan, int]]]) -> None:
    for size in told.values():
        assert {name: queries for name, (_, _, queries) in size.items()} == {"granted": 1, "by_role": 1, "never": 1}
        assert {name: reason for name, (reason, _, _) in size.items()} == {
            "granted": "granted",
            "by_role": "role",
            "never": "no_grant",
        }


def test_no_growing_table_is_read_from_end_to_end(told: dict[str, dict[str, tuple[str, plans.Plan, int]]]) -> None:
    for name, (_, plan, _) in told["large"].items():
        assert not plan.scanned, f"{name}: {plan.text}"


def test_the_rows_that_are_looked_at_do_not_grow(told: dict[str, dict[str, tuple[str, plans.Plan, int]]]) -> None:
    for name in told["large"]:
        small, large = told["small"][name][1].rows, told["large"][name][1].rows
        if small is None or large is None:
            # SQLite does not count: that each table is entered by the same kind of step says it.
            assert "SCAN nhi" not in told["large"][name][1].text
            continue
        assert large <= max(40, small * 2), f"{name}: {small} rows, then {large}\n{told['large'][name][1].text}"
