"""Celery carries hints: a request's id goes with them, and one that is lost or doubled changes nothing."""

import json
import socket
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis

from common.context import RequestContext, bind_context
from config.celery import EXCHANGE, app
from config.launcher import broker
from nhi.celery_tasks import sweep, tick
from tests.services import valkey
from tests.services.house import House

pytestmark = [pytest.mark.capability("OPS-03"), pytest.mark.xdist_group("house")]


def link(house: House):
    return app.connection_for_write(f"redis+socket://{house.data / 'valkey.sock'}")


def logged(house: House, worker: str) -> list[dict[str, object]]:
    lines = (house.data / "logs" / f"{worker}.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.parametrize("queue", ["control", "runs"])
def test_the_request_id_arrives_in_the_task(running_house: House, queue: str) -> None:
    request_id = uuid4()
    with bind_context(RequestContext(request_id)), link(running_house) as connection:
        sweep.apply_async(connection=connection, queue=queue)

    def arrived() -> bool:
        lines = logged(running_house, f"worker-{queue}")
        return any(line.get("request_id") == str(request_id) and "nhi.sweep" in str(line["event"]) for line in lines)

    running_house.wait_for(arrived, 15, "logged with the request's id")


def test_each_message_of_nobody_has_an_id_of_its_own(running_house: House) -> None:
    def ids() -> list[object]:
        lines = logged(running_house, "worker-control")
        return [line["request_id"] for line in lines if "nhi.tick" in str(line["event"]) and "request_id" in line]

    running_house.wait_for(lambda: len(ids()) >= 2, 20, "two ticks logged")
    assert len(set(ids())) == len(ids())


def test_lost_messages_do_no_harm(running_house: House) -> None:
    with closing(Redis(unix_socket_path=str(running_house.data / "valkey.sock"))) as client:
        client.flushall()
    flushed_at = time.time()
    for role in ("worker-control", "worker-runs", "beat"):
        process = running_house.children(role)[0]
        heard = lambda: running_house.heard_of(role, process.pid, after=flushed_at)  # noqa: B023, E731 - asked before the loop goes on
        running_house.wait_for(heard, 30, f"{role} heard of after the loss")
    assert running_house.is_ready()


def test_doubled_messages_do_no_harm(running_house: House) -> None:
    worker = running_house.children("worker-control")[0]
    sent_at = time.time()
    with link(running_house) as connection:
        for _ in range(3):
            tick.apply_async(args=["worker-control"], connection=connection, queue="control", task_id="the-same")
    heard = lambda: running_house.heard_of("worker-control", worker.pid, after=sent_at)  # noqa: E731 - a fact to wait for, named
    running_house.wait_for(heard, 15, "heard of")
    assert running_house.is_ready()


def test_what_a_dead_worker_had_taken_is_put_back(tmp_path: Path) -> None:
    place = tmp_path / "valkey.sock"
    with valkey.server(place), closing(Redis(unix_socket_path=str(place))) as client:
        twin = Celery("twin", broker=f"redis+socket://{place}", set_as_current=False)
        twin.conf.update({name: app.conf[name] for name in ("broker_transport_options", "task_queues", "task_routes")})
        with twin.connection_for_write() as connection:
            channel = connection.channel()
            bound_queue = next(queue for queue in app.conf.task_queues if queue.name == "runs")(channel)
            bound_queue.declare()
            EXCHANGE(channel).publish(EXCHANGE(channel).Message(b"a run"), routing_key="runs")
            assert bound_queue.get(no_ack=False) is not None
            # As kill -9 does: nothing is acknowledged, nothing given back.
            channel.qos._delivered.clear()
        assert client.llen("gatehouse:runs") == 0
        assert client.zcard("gatehouse:unacked_index") == 1
        assert broker.requeue(twin) == 1
        assert client.llen("gatehouse:runs") == 1
        assert client.zcard("gatehouse:unacked_index") == 0
        assert broker.requeue(twin) == 0


@pytest.mark.parametrize("state", ["gone", "hanging"])
def test_publishing_without_a_broker_fails_soon(tmp_path: Path, state: str) -> None:
    path = tmp_path / "valkey.sock"
    with closing(socket.socket(socket.AF_UNIX)) as silent:
        if state == "hanging":
            silent.bind(str(path))
            silent.listen()
        begun = time.monotonic()
        with app.connection_for_write(f"redis+socket://{path}") as connection, pytest.raises(OperationalError):
            sweep.apply_async(connection=connection)
        assert time.monotonic() - begun < 8
