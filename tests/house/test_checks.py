"""What the three paths answer, and who counts as alive."""

import os
import socket
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from config import health
from nhi import process_heartbeats
from nhi.models.processes import Process, ProcessKind
from tests.services import guards

pytestmark = [pytest.mark.capability("OPS-03"), pytest.mark.both_databases]


def everybody_is_heard_of() -> None:
    for kind in ProcessKind:
        process_heartbeats.record_heartbeat(kind=kind)


def failing(client: Client) -> dict[str, str]:
    answer = client.get("/readyz")
    checks = answer.json()["checks"]
    assert answer.status_code == (200 if answer.json()["ready"] else 503)
    assert answer.json()["ready"] == all(check["ok"] for check in checks.values())
    return {name: check["message"] for name, check in checks.items() if not check["ok"]}


def test_being_alive_takes_no_database(client: Client) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"alive": True})


def test_the_bare_address_leads_to_the_console(client: Client) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")


@pytest.mark.django_db(transaction=True)
def test_ready_when_every_part_is(client: Client) -> None:
    everybody_is_heard_of()
    assert failing(client) == {}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", [kind for kind in ProcessKind if kind not in {ProcessKind.WEB, ProcessKind.GRPC}])
def test_the_silent_one_is_named(client: Client, kind: ProcessKind) -> None:
    everybody_is_heard_of()
    Process.objects.filter(kind=kind).update(
        seen_at=timezone.now() - process_heartbeats.LATE_AFTER - timedelta(seconds=1)
    )
    assert failing(client).keys() == {kind.value}


@pytest.mark.django_db(transaction=True)
def test_a_stdio_owner_elsewhere_is_of_no_use_here(client: Client) -> None:
    everybody_is_heard_of()
    Process.objects.filter(kind=ProcessKind.STDIO_OWNER).update(host="another.example")
    assert failing(client).keys() == {"stdio-owner"}


@pytest.mark.django_db(transaction=True)
def test_a_missing_guard_is_named(client: Client) -> None:
    everybody_is_heard_of()
    guards.drop("default")
    (name, message), *others = failing(client).items()
    assert (name, others) == ("guards", [])
    assert "nhi_audit_event" in message


@pytest.mark.django_db(transaction=True)
def test_a_request_gets_back_its_own_id_or_a_new_one(client: Client) -> None:
    own = "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"
    assert client.get("/healthz", headers={"X-Request-ID": own})["X-Request-ID"] == own
    made = [client.get("/healthz", headers={"X-Request-ID": odd})["X-Request-ID"] for odd in ("", "x" * 36, "1\t2")]
    assert len(set(made)) == 3
    assert all(len(one) == 36 for one in made)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("header, status", [
    ("", 401), ("Bearer", 401), ("Bearer " + "n" * 40, 401), ("Basic " + "m" * 40, 401), ("Bearer " + "m" * 41, 401),
    ("Bearer " + "m" * 40, 200), ("bearer " + "m" * 40, 200),
])  # fmt: skip
def test_metrics_are_for_who_has_their_token(client: Client, settings: Any, header: str, status: int) -> None:
    headers = {"Authorization": header} if header else {}
    assert client.get("/metrics", headers=headers).status_code == 200, "everybody, where no token is set"
    settings.METRICS_TOKEN = "m" * 40
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == status
    assert (b"gatehouse_requests" in answer.content) == (status == 200)
    assert ("WWW-Authenticate" in answer.headers) == (status == 401)


@pytest.mark.django_db(transaction=True)
def test_nothing_but_reading_is_answered(client: Client) -> None:
    answers = {path: client.post(path).status_code for path in ("/healthz", "/readyz", "/metrics")}
    assert set(answers.values()) == {405}


@pytest.mark.django_db
def test_a_process_has_one_row_however_often_it_is_heard_of() -> None:
    process_heartbeats.record_heartbeat(kind=ProcessKind.BEAT, host="there", pid=7)
    first = Process.objects.get()
    process_heartbeats.record_heartbeat(kind=ProcessKind.BEAT, host="there", pid=7)
    again = Process.objects.get()
    assert (again.pk, again.started_at) == (first.pk, first.started_at)
    assert again.seen_at > first.seen_at


@pytest.mark.django_db
def test_an_old_number_come_round_again_is_a_new_process() -> None:
    process_heartbeats.record_heartbeat(kind=ProcessKind.BEAT, host="there", pid=7)
    long_ago = timezone.now() - timedelta(days=1)
    Process.objects.update(started_at=long_ago, seen_at=long_ago)
    process_heartbeats.record_heartbeat(kind=ProcessKind.BEAT, host="there", pid=7)
    assert Process.objects.get().started_at > long_ago


@pytest.mark.django_db
def test_the_long_silent_and_the_dead_of_this_host_are_forgotten() -> None:
    for host, pid in (("there", 1), (process_heartbeats.HOST, os.getpid()), (process_heartbeats.HOST, 2**22 + 1)):
        process_heartbeats.record_heartbeat(kind=ProcessKind.WEB, host=host, pid=pid)
    assert process_heartbeats.remove_dead() == 1
    Process.objects.filter(host="there").update(seen_at=timezone.now() - process_heartbeats.FORGET_AFTER * 2)
    assert process_heartbeats.remove_silent(timezone.now()) == 1
    assert Process.objects.get().pid == os.getpid()


@pytest.mark.parametrize("text", [None, "", "gen@host", "genx@host", "worker1@host", "gen1", "gen12345678901@host"])
def test_an_odd_origin_names_nobody(text: str | None) -> None:
    assert process_heartbeats.parse_origin(text) is None


def test_an_origin_names_the_process_that_published() -> None:
    assert process_heartbeats.parse_origin("gen42@there.example.org") == process_heartbeats.MessageOrigin(
        "there.example.org", 42
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"\x00\x00\x06\x04\x00\x00\x00\x00\x00", "The gRPC server answers."),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak gRPC"),
        (b"", "does not speak gRPC"),
    ],
)
def test_what_listens_for_grpc_has_to_speak_it(settings: Any, said: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as far:
        port = far.getsockname()[1]
        settings.GRPC_PROBE = frozenset({f"127.0.0.1:{port}"})
        answer = threading.Thread(target=lambda: _says(far, said))
        answer.start()
        ok, told = health.Check("grpc", health.grpc).ask().result(10)
        answer.join()
    assert message in told
    assert ok is (message == "The gRPC server answers.")
    assert health.Check("grpc", health.grpc).ask().result(10) == (False, "Away: ConnectionRefusedError.")


def _says(far: socket.socket, said: bytes) -> None:
    link, _ = far.accept()
    with link:
        assert link.recv(100).startswith(b"PRI * HTTP/2.0")
        link.sendall(said)
