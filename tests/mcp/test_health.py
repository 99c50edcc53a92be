"""Servers are met on demand and by the clock; what each meeting found is kept, and the status follows it."""

import socket
import time
from contextlib import closing

import pytest
from django.conf import settings as all_settings

from mcp.choices import Connection, HealthStatus
from mcp.models import HealthReport, Server
from mcp.servers import health, lifecycle
from nhi.models import AuditEvent
from tests.mcp import peer
from tests.nhi import cast
from tests.services.postgresql import free_port

pytestmark = [
    pytest.mark.capability("MCP-10", "MCP-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def added(port: int, settings: object, name: str = "peer") -> Server:
    allowed = all_settings.EGRESS_ALLOW | {f"127.0.0.1:{port}"}
    settings.EGRESS_ALLOW = frozenset(allowed)  # type: ignore[attr-defined]
    given = {"transport": "http", "base_url": f"http://127.0.0.1:{port}/mcp"}
    return lifecycle.create(actor=cast.admin(), name=name, owner=cast.user("olga", "operator"), configuration=given)


def status(server: Server) -> str:
    return Server.objects.get(pk=server.pk).status


def test_the_status_follows_what_meetings_find(settings: object) -> None:
    port = free_port()
    with peer.serving("echo", port=port):
        server = added(port, settings)
        assert status(server) == Connection.READY
        report = health.check(server=server, actor=cast.admin())
        assert (report.status, report.handshake_success, report.asked_by) == (HealthStatus.HEALTHY, True, "mara")
        assert report.protocol_version == "2026-07-28"
        assert report.server_capabilities == ["tools"]
    seen = []
    for _ in range(3):
        report = health.check(server=lifecycle.read(server), timeout=2)
        assert report.status == HealthStatus.UNHEALTHY
        assert report.error_message
        seen.append(status(server))
    assert seen == [Connection.READY, Connection.DEGRADED, Connection.OFFLINE]
    with peer.serving("echo", port=port):
        Server.objects.update(last_checked_at=None)
        assert health.check_due_servers() == 1
        assert status(server) == Connection.READY
    told = list(
        AuditEvent.objects.filter(subject_id=server.pk).order_by("at", "writer_seq").values_list("event", flat=True)
    )
    moves = [event for event in told if event in {"server.ready", "server.degraded", "server.offline"}]
    assert moves == ["server.ready", "server.degraded", "server.offline", "server.ready"]


def test_a_server_that_does_not_answer_is_added_offline(settings: object) -> None:
    server = added(free_port(), settings)
    assert server.status == Connection.OFFLINE
    assert "No connection" in server.status_reason or server.last_error
    assert server.last_handshake, "its page can say what was tried"


def test_a_server_that_does_not_say_its_tools_is_not_asked_again_at_once(settings: object) -> None:
    port = free_port()
    with peer.serving("echo", port=port):
        server = added(port, settings)
    Server.objects.update(last_refreshed_at=None, refresh_tried_at=None)
    assert health.refresh_due_servers() == 1
    assert lifecycle.read(server).last_refreshed_at is None
    assert (status(server), health.refresh_due_servers()) == (Connection.READY, 0), "those who wait longest come first"


def test_servers_that_hang_keep_no_others_waiting(settings: object) -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as deaf:
        port = deaf.getsockname()[1]
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{port}"})  # type: ignore[attr-defined]
        owner = cast.user("olga", "operator")
        Server.objects.bulk_create(
            [
                Server(name=f"deaf-{n}", owner=owner, transport="http", base_url=f"http://127.0.0.1:{port}/mcp")
                for n in range(12)
            ]
        )
        began = time.monotonic()
        assert health.check_due_servers() == 12
        assert time.monotonic() - began < 9, "a task may take ten seconds"
    assert HealthReport.objects.filter(status=HealthStatus.UNHEALTHY).count() == 12


def test_only_who_may_operate_servers_tests_them(settings: object) -> None:
    with peer.serving("echo", port=free_port()) as one:
        server = added(one.port, settings)
        with pytest.raises(Exception, match="may not test servers"):
            health.check(server=server, actor=cast.acting("ada", "auditor"))
