"""A server says that its tools changed, and the owner asks for a refresh: once for many, and of no one else."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from common.ids import uuid7
from mcp.client.types import ServerTarget
from tests.owner.announcers import Announcer, Legacy, Modern, Sse, serving
from tests.owner.stage import Owner, owner, scene
from tests.services.postgresql import free_port
from tests.services.waiting import wait_for

pytestmark = pytest.mark.capability("MCP-04")
ERAS = {"modern": (Modern, "http"), "legacy": (Legacy, "http"), "sse": (Sse, "sse")}
#: On the stage changes are gathered for 0.3 s; what has not been asked for after this will not be.
LONG, DEADLINE = 1.5, 20


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Owner]:
    with owner(Path(tmp_path_factory.mktemp("changes")), egress=f"127.0.0.1:{port}") as one:
        yield one


def reached(server: Announcer, transport: str = "http") -> ServerTarget:
    return ServerTarget(uuid7(), "announcer", 1, transport, base_url=server.url)  # type: ignore[arg-type]  # the parameter is one of the transports


def listens(house: Owner, server: Announcer, target: ServerTarget) -> None:
    """The owner listens, and has asked for what had changed before it did."""
    wait_for(lambda: server.listened or getattr(server, "streams", None), DEADLINE, "listening")
    wait_for(lambda: house.refreshes(target) == 1, DEADLINE, "the first refresh")


@scene
async def test_many_changes_of_a_process_are_one_refresh(house: Owner) -> None:
    target, other = house.add(), house.add()
    await house.call(target, "announce", times=20)
    await house.call(other, "pid")
    wait_for(lambda: house.refreshes(target) == 1, DEADLINE, "a refresh")
    time.sleep(LONG)
    assert house.refreshes(target) == 1
    assert house.refreshes(other) == 0


@scene
async def test_whoever_changes_again_is_asked_again_but_not_at_once(house: Owner) -> None:
    target = house.add()
    for count in (1, 2, 3):
        begun = time.monotonic()
        await house.call(target, "announce", times=1)
        wait_for(lambda count=count: house.refreshes(target) == count, DEADLINE, "a refresh")
        assert time.monotonic() - begun > 0.3 * 2 ** (count - 1) - 0.05


@scene
async def test_a_process_that_is_started_anew_may_be_another_program(house: Owner) -> None:
    target = house.add()
    await house.call(target, "pid")
    time.sleep(LONG)
    assert house.refreshes(target) == 0
    house.change(target, revision=2)
    await house.call(replace(target, revision=2), "pid")
    wait_for(lambda: house.refreshes(target) == 1, DEADLINE, "a refresh")


@pytest.mark.parametrize("era", ERAS)
def test_a_server_over_http_is_listened_to(house: Owner, port: int, era: str) -> None:
    kind, transport = ERAS[era]
    with serving(kind(port=port)) as server:
        target = reached(server, transport)
        house.watch(target)
        listens(house, server, target)
        server.announce(times=5)
        wait_for(lambda: house.refreshes(target) == 2, DEADLINE, "a refresh")
        time.sleep(LONG)
        assert house.refreshes(target) == 2


def test_a_server_that_offers_no_such_word_is_left_alone(house: Owner, port: int) -> None:
    with serving(Modern(port=port, offered=False)) as server:
        target = reached(server)
        house.watch(target)
        wait_for(lambda: "server/discover" in server.methods(), DEADLINE, "asked")
        time.sleep(LONG)
        assert server.methods() == ["server/discover"]
        assert house.refreshes(target) == 0


def test_a_server_that_has_no_stream_is_asked_for_it_once(house: Owner, port: int) -> None:
    with serving(Legacy(port=port, refuses=405)) as server:
        target = reached(server)
        house.watch(target)
        wait_for(lambda: server.listened, DEADLINE, "asked")
        time.sleep(LONG + 1)
        assert server.listened <= 2  # the transport itself looks once whether it speaks another era
        asked = server.listened
        house.watch(replace(target, revision=2))
        wait_for(lambda: server.listened > asked, DEADLINE, "asked again, since it may be another server")


@pytest.mark.parametrize("kind", [Modern, Legacy])
def test_a_server_that_comes_back_is_refreshed_and_heard(house: Owner, port: int, kind: type[Announcer]) -> None:
    first = kind(port=port)
    with serving(first) as server:
        target = reached(server)
        house.watch(target)
        listens(house, server, target)
    with serving(kind(port=port)) as server:
        wait_for(lambda: server.listeners, DEADLINE, "listening again")
        wait_for(lambda: house.refreshes(target) >= 2, DEADLINE, "a refresh")
        seen = house.refreshes(target)
        server.announce()
        wait_for(lambda: house.refreshes(target) > seen, DEADLINE, "a refresh")


def test_what_is_disabled_or_changed_is_listened_to_no_more(house: Owner, port: int) -> None:
    with serving(Modern(port=port)) as server:
        target = reached(server)
        house.watch(target)
        listens(house, server, target)
        house.watch(replace(target, revision=2))
        wait_for(lambda: server.listened == 2, DEADLINE, "listening anew")
        wait_for(lambda: len(server.listeners) == 1, DEADLINE, "listening once")
        house.watch()
        wait_for(lambda: not server.listeners, DEADLINE, "silent")


def test_the_owner_ends_in_time_while_it_listens(tmp_path: Path) -> None:
    port = free_port()  # the others' owner still listens at theirs
    with owner(tmp_path, egress=f"127.0.0.1:{port}") as house, serving(Modern(port=port)) as server:
        target = reached(server)
        house.watch(target)
        listens(house, server, target)
        server.announce()
        begun = time.monotonic()
        assert house.stop() == 0
        assert time.monotonic() - begun < 5
        wait_for(lambda: not server.listeners, DEADLINE, "silent")
