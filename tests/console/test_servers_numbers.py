"""The numbers of servers: calls, and which of them are errors of the server."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mcp.admin.call_statistics import of_servers
from mcp.gateway import call_statistics
from mcp.models import Server
from nhi.choices import CallStatus
from nhi.models import CallRollup
from tests.console import calling
from tests.console.reading import queries, words
from tests.console.servers import LIST, hub

pytestmark = [pytest.mark.capability("MCP-01", "MCP-03", "CON-05"), pytest.mark.django_db]


@pytest.mark.both_databases
def test_the_list_shows_numbers_of_a_day_in_as_many_queries_for_many_rows_as_for_one(
    todo: Server, mara: Client
) -> None:
    now = timezone.now()
    CallRollup.objects.create(
        hour=now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3), agent_id=todo.pk, agent_name="bot",
        tool_name="todo", method="echo", status=CallStatus.SUCCESS, calls=19, duration_sum=100,
        buckets=[0, 19, *[0] * 11],
    )  # fmt: skip
    CallRollup.objects.create(
        hour=now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3), agent_id=todo.pk, agent_name="bot",
        tool_name="todo", method="echo", status=CallStatus.ERROR, calls=1, duration_sum=100,
        buckets=[0, 0, 0, 0, 0, 0, 0, 0, 1, *[0] * 4],
    )  # fmt: skip
    numbers = of_servers(["todo"], span=timedelta(days=1))["todo"]
    assert (numbers.calls, numbers.error_percent, numbers.p95) == (20, 5.0, "≤ 10 ms")
    few = queries(mara, LIST)
    owner = todo.owner
    Server.objects.bulk_create(
        Server(
            name=f"s{number}", owner=owner, transport="http", base_url="https://example.com/mcp", created_by_name="x"
        )
        for number in range(60)
    )
    many = queries(mara, LIST)
    assert many <= few
    assert many <= 15
    assert "5 %" in words(mara.get(f"{LIST}?q=todo"))


@pytest.mark.both_databases
def test_only_faults_of_the_server_are_its_errors_among_the_calls_that_reached_it(mara: Client) -> None:
    tool = calling.registered()
    for _ in range(2):
        calling.call()
        calling.denied()
    ended: list[tuple[str, float]] = [
        ("upstream", 9.0), ("timeout", 30.0), ("tool_error", 9.0), ("invalid_parameters", 9.0), ("cancelled", 9.0),
        ("invalid_parameters", 0.0), ("breaker_open", 0.0), ("breaker_open", 0.0),
    ]  # fmt: skip
    for reason, duration in ended:
        calling.call(status="error", end={"reason": reason, "duration": duration})
    server = of_servers(["github"], span=timedelta(days=1))["github"]
    assert (server.calls, server.made, server.errors, server.error_percent) == (12, 7, 2, 28.6)
    said = "12, 7 reached the server, 2 of these failed (28.6 %)"
    paths = (hub(tool.server), hub(tool.server, "calls/"), f"/admin/mcp/tool/{tool.pk}/calls/")
    for path in paths:
        assert said in words(mara.get(path)), path
    assert "28.6 %" in words(mara.get(f"{LIST}?q=github"))


@pytest.mark.both_databases
def test_errors_of_hours_that_were_summed_are_told_apart_too(mara: Client) -> None:
    calling.registered()
    for reason, duration in (("upstream", 9.0), ("breaker_open", 0.0), ("tool_error", 9.0)):
        calling.call(status="error", ago=5 * 3600, end={"reason": reason, "duration": duration})
    call_statistics.roll_up()
    assert CallRollup.objects.filter(status=CallStatus.ERROR).exists()
    numbers = of_servers(["github"], span=timedelta(days=1))["github"]
    assert (numbers.calls, numbers.made, numbers.errors) == (3, 2, 1)
