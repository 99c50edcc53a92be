"""The measurement itself: every reply is looked at, nothing wrong counts as right, and each call has its row."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import gateway
from benchmarks.calls.database import Databases
from benchmarks.calls.processes import Load, Target, load

pytestmark = pytest.mark.capability("OPS-01")


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Target]:
    with gateway.direct(tmp_path) as target:
        yield target


@pytest.fixture
def clients() -> Iterator[Load]:
    with load() as running:
        yield running


def test_each_call_through_the_forwarder_has_its_row(upstream: Target, clients: Load, tmp_path: Path) -> None:
    own = Databases(tmp_path, None).new("forwarder")
    with gateway.forwarder(upstream, own, 2) as target:
        cell = clients.measure(target, connections=4, seconds=0.3, warm=0.1)
    assert cell.errors == 0
    assert cell.calls == own.count("forwarded") > 10
    assert 0 < cell.p50_ms <= cell.p95_ms <= cell.p99_ms
    assert cell.cpu_ms > 0


def test_a_reply_to_another_call_is_an_error(upstream: Target, clients: Load) -> None:
    wrong = replace(upstream.request, expect="other-@@@@@@@@@@@@")
    cell = clients.measure(replace(upstream, request=wrong), connections=2, seconds=0.1, warm=0.0)
    assert cell.errors == cell.calls > 0
    assert cell.first_errors[0].startswith("HTTP/1.1 200")


def test_a_server_that_is_gone_is_an_error(clients: Load, tmp_path: Path) -> None:
    with gateway.direct(tmp_path) as target:
        pass
    cell = clients.measure(replace(target, pids=[]), connections=2, seconds=0.1, warm=0.0)
    assert cell.errors == cell.calls == 2
