"""Real requests over real HTTP: what an allowed place opens, and what no answer and no environment brings about."""

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from pytest_django import Settings

from common import egress
from tests.egress.far_side import Listener, NameServers, Wire, run, serving

pytestmark = pytest.mark.capability("OPS-01")

REDIRECTS = (301, 302, 303, 307, 308)


async def plain(request: web.Request) -> web.Response:
    return web.json_response({"method": request.method, "headers": dict(request.headers)})


def allow(settings: Settings, *places: str) -> None:
    settings.EGRESS_ALLOW = frozenset(places)


def test_an_allowed_place_is_called_over_http(settings: Settings) -> None:
    async def main(wire: Wire) -> str:
        async with serving(plain) as port:
            allow(settings, f"127.0.0.1:{port}")
            url = f"http://127.0.0.1:{port}/"
            assert egress.find_url_problem(url) == ""
            await egress.check_url(url)
            async with egress.open_session().post(url, json={"a": 1}) as response:
                return (await egress.read_limited_body(response, 10_000)).decode()

    assert '"method": "POST"' in run(main)


def test_a_name_may_be_allowed_and_lead_inside(settings: Settings, name_servers: NameServers) -> None:
    name_servers.answers["todo.internal"] = [["127.0.0.1"]]

    async def main(wire: Wire) -> int:
        async with serving(plain) as port:
            allow(settings, f"todo.internal:{port}")
            await egress.check_url(f"http://todo.internal:{port}/")
            async with egress.open_session().get(f"http://todo.internal:{port}/") as response:
                return response.status

    assert run(main) == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{other}/", "http://localhost:{port}/", "http://127.1:{port}/", "http://[::ffff:127.0.0.1]:{port}/",
        "http://[::1]:{port}/", "http://127.0.0.1.:{port}/", "http://user@127.0.0.1:{port}/", "ws://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}/#part", "http://127.0.0.1/", "https://127.0.0.1/",
    ],
)  # fmt: skip
def test_an_entry_opens_that_very_place_only(url: str, listener: Listener, settings: Settings) -> None:
    allow(settings, f"127.0.0.1:{listener.port}")
    whole = url.format(port=listener.port, other=listener.port - 1)

    async def main(wire: Wire) -> list[str]:
        with pytest.raises(egress.EgressBlocked):
            await egress.open_session().get(whole)
        return wire.connected

    assert egress.find_url_problem(whole)
    assert run(main) == []
    assert listener.count() == 0


@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirect_is_an_answer_like_others(status: int, listener: Listener, settings: Settings) -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"http://127.0.0.1:{listener.port}/"})

    async def main(wire: Wire) -> list[str]:
        async with serving(elsewhere) as port:
            # Also where it leads is allowed: it is the following that is refused.
            allow(settings, f"127.0.0.1:{port}", f"127.0.0.1:{listener.port}")
            for method in ("GET", "POST", "HEAD"):
                async with egress.open_session().request(
                    method, f"http://127.0.0.1:{port}/", allow_redirects=True
                ) as response:
                    assert (response.status, response.history) == (status, ())
            async with egress.open_session().get(f"http://127.0.0.1:{port}/") as response:
                assert response.status == status
        return wire.connected

    assert run(main)
    assert listener.count() == 0


def test_cookies_are_not_kept(settings: Settings) -> None:
    seen: list[str | None] = []

    async def baker(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Cookie"))
        response = web.Response()
        response.set_cookie("session", "of someone")
        return response

    async def main(wire: Wire) -> None:
        async with serving(baker) as port:
            allow(settings, f"127.0.0.1:{port}")
            for _ in range(2):
                async with egress.open_session().get(f"http://127.0.0.1:{port}/"):
                    pass

    run(main)
    assert seen == [None, None]


def test_proxies_and_passwords_of_the_environment_are_ignored(
    listener: Listener, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
    (tmp_path / "netrc").write_text("default login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    heard: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        heard.append(request.headers.get("Authorization"))
        return web.Response()

    async def main(wire: Wire) -> None:
        async with serving(handler) as port:
            allow(settings, f"127.0.0.1:{port}", f"127.0.0.1:{listener.port}")
            async with egress.open_session().get(f"http://127.0.0.1:{port}/"):
                pass
            with pytest.raises(egress.EgressBlocked, match="no proxy"):
                await egress.open_session().get(f"http://127.0.0.1:{port}/", proxy=f"http://127.0.0.1:{listener.port}")

    run(main)
    assert heard == [None]
    assert listener.count() == 0


def test_connections_are_kept_and_closed(settings: Settings) -> None:
    async def main(wire: Wire) -> int:
        async with serving(plain) as port:
            allow(settings, f"127.0.0.1:{port}")
            first = egress.open_session()
            for _ in range(5):
                async with egress.open_session().get(f"http://127.0.0.1:{port}/") as response:
                    await egress.read_limited_body(response, 10_000)
            assert egress.open_session() is first
            await egress.close_session()
            assert first.closed
            assert egress.open_session() is not first
            return len(wire.connected)

    assert run(main) == 1


@pytest.mark.parametrize("idle, connections", [(3.0, 1), (4.5, 2)])
def test_an_idle_connection_is_let_go_of_before_its_server_would(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, idle: float, connections: int
) -> None:
    """Five seconds are what servers keep one for, where nobody told them otherwise."""
    asleep = [0.0]
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: time.monotonic() + asleep[0])

    async def main(wire: Wire) -> int:
        async with serving(plain) as port:
            allow(settings, f"127.0.0.1:{port}")
            for _ in range(2):
                async with egress.open_session().get(f"http://127.0.0.1:{port}/") as response:
                    await egress.read_limited_body(response, 10_000)
                asleep[0] = idle
            return len(wire.connected)

    assert run(main) == connections


def test_a_kept_connection_is_judged_too(settings: Settings) -> None:
    async def main(wire: Wire) -> None:
        async with serving(plain) as port:
            allow(settings, f"127.0.0.1:{port}")
            async with egress.open_session().get(f"http://127.0.0.1:{port}/") as response:
                await egress.read_limited_body(response, 10_000)
            allow(settings)
            with pytest.raises(egress.EgressBlocked):
                await egress.open_session().get(f"http://127.0.0.1:{port}/")

    run(main)


def test_each_event_loop_has_its_own_session() -> None:
    async def mine(wire: Wire) -> aiohttp.ClientSession:
        return egress.open_session()

    first, second = run(mine), run(mine)
    assert first is not second
    assert first.closed
    assert second.closed


def test_closing_without_a_session_does_nothing() -> None:
    asyncio.run(egress.close_session())
