"""A name is resolved once for a connection, all its addresses are judged, and only those are connected to."""

import asyncio
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest
from aiohttp import web
from pytest_django import Settings

from common import egress
from common.egress import client
from tests.egress.far_side import OTHER_PUBLIC, PUBLIC, Listener, NameServers, Wire, run, serving
from tests.egress.tls import Certificate

pytestmark = pytest.mark.capability("OPS-01")

URL = "https://tools.example:8443/mcp"


async def unreachable(url: str = URL) -> None:
    with pytest.raises(aiohttp.ClientConnectorError):
        await egress.open_session().get(url)


async def blocked(url: str = URL) -> None:
    with pytest.raises(egress.EgressBlocked):
        await egress.open_session().get(url)


def test_only_the_judged_address_is_connected_to_when_the_name_changes(name_servers: NameServers) -> None:
    name_servers.answers["tools.example"] = [[PUBLIC], ["127.0.0.1"]]

    async def main(wire: Wire) -> list[str]:
        await unreachable()
        return wire.connected

    assert run(main) == [PUBLIC]
    assert name_servers.asked == ["tools.example"]


def test_a_name_that_changed_since_it_was_checked_is_judged_anew(name_servers: NameServers, listener: Listener) -> None:
    name_servers.answers["tools.example"] = [[PUBLIC], ["127.0.0.1"]]

    async def main(wire: Wire) -> list[str]:
        await egress.check_url(f"https://tools.example:{listener.port}/")
        await blocked(f"https://tools.example:{listener.port}/")
        return wire.connected

    assert run(main) == []
    assert listener.count() == 0


def test_every_judged_address_is_tried(name_servers: NameServers) -> None:
    name_servers.answers["tools.example"] = [[PUBLIC, OTHER_PUBLIC]]

    async def main(wire: Wire) -> list[str]:
        await egress.check_url(URL)
        await unreachable()
        return wire.connected

    assert sorted(run(main)) == sorted([PUBLIC, OTHER_PUBLIC])


@pytest.mark.parametrize(
    "answer", [[PUBLIC, "127.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC, OTHER_PUBLIC, "::1"], [OTHER_PUBLIC, "fe80::1%2"]]
)
def test_one_private_address_among_public_ones_closes_the_name(answer: list[str], name_servers: NameServers) -> None:
    name_servers.answers["tools.example"] = [answer]

    async def main(wire: Wire) -> list[str]:
        with pytest.raises(egress.EgressBlocked):
            await egress.check_url(URL)
        await blocked()
        return wire.connected

    assert run(main) == []


def test_a_peer_that_is_not_the_address_asked_for_is_left_at_once(
    name_servers: NameServers, certificate: Certificate
) -> None:
    """As when a translation on the way leads back inside."""
    name_servers.answers["tools.example"] = [[PUBLIC]]
    heard: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        heard.append(request.path)
        return web.Response()

    async def main(wire: Wire) -> list[str]:
        async with serving(handler, certificate.server()) as port:
            wire.routes[PUBLIC] = ("127.0.0.1", port)
            with pytest.raises(egress.EgressBlocked):
                await egress.open_session().get(URL, ssl=certificate.client())
        return wire.connected

    assert run(main) == [PUBLIC]
    assert heard == []


def test_a_peer_that_is_gone_before_it_was_seen_is_not_called(settings: Settings) -> None:
    async def main(wire: Wire) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            wire.connects_then = lambda: reset(listening)
            place = f"127.0.0.1:{listening.getsockname()[1]}"
            settings.EGRESS_ALLOW = frozenset({place})
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await egress.open_session().post(f"http://{place}/")

    run(main)


def reset(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_name_that_nobody_knows_is_not_blocked_and_not_called(name_servers: NameServers) -> None:
    async def main(wire: Wire) -> list[str]:
        await egress.check_url(URL)
        with pytest.raises(aiohttp.ClientConnectorDNSError):
            await egress.open_session().get(URL)
        return wire.connected

    assert run(main) == []


def test_name_servers_that_hang_hold_up_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    asked = asyncio.Event()

    def never(*question: object) -> None:
        loops[0].call_soon_threadsafe(asked.set)
        released.wait(10)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", never)

    loops: list[Wire] = []

    async def main(wire: Wire) -> None:
        loops.append(wire)
        wire.set_default_executor(ThreadPoolExecutor(1))
        calls = [asyncio.ensure_future(egress.open_session().get(f"https://n{each}.example/")) for each in range(8)]
        await asyncio.wait_for(asked.wait(), 5)
        await asyncio.wait_for(asyncio.to_thread(int), 5)
        released.set()
        await asyncio.gather(*calls, return_exceptions=True)

    run(main)


def test_an_address_that_never_answers_is_given_up_before_the_callers_patience_ends(
    name_servers: NameServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_servers.answers["tools.example"] = [[PUBLIC]]
    monkeypatch.setattr(client, "CONNECT_TIMEOUT", aiohttp.ClientTimeout(connect=0.2))

    async def main(wire: Wire) -> None:
        wire.silent.add(PUBLIC)
        with pytest.raises(aiohttp.ConnectionTimeoutError):
            await egress.open_session().get(URL, timeout=aiohttp.ClientTimeout(total=60))

    started = time.monotonic()
    run(main)
    assert time.monotonic() - started < 5


def test_host_and_tls_name_stay_those_of_the_url(
    name_servers: NameServers, certificate: Certificate, settings: Settings
) -> None:
    name_servers.answers["tools.example"] = [["127.0.0.1"]]
    asked_for: list[str | None] = []
    tls = certificate.server()
    tls.sni_callback = lambda connection, name, context: asked_for.append(name)

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=request.host)

    async def main(wire: Wire) -> str:
        async with serving(handler, tls) as port:
            settings.EGRESS_ALLOW = frozenset({f"tools.example:{port}"})
            async with egress.open_session().get(
                f"https://tools.example:{port}/", ssl=certificate.client()
            ) as response:
                return (await response.text()).partition(":")[0]

    assert run(main) == "tools.example"
    assert asked_for == ["tools.example"]


def test_a_certificate_that_nobody_vouches_for_ends_the_call(
    name_servers: NameServers, certificate: Certificate, settings: Settings
) -> None:
    """An allowed place is not believed more than others, and nobody can ask for that."""
    name_servers.answers["tools.example"] = [["127.0.0.1"]]

    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    async def main(wire: Wire) -> None:
        async with serving(handler, certificate.server()) as port:
            settings.EGRESS_ALLOW = frozenset({f"tools.example:{port}"})
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await egress.open_session().get(f"https://tools.example:{port}/")
            with pytest.raises(egress.EgressBlocked):
                await egress.open_session().get(f"https://tools.example:{port}/", ssl=False)

    run(main)
