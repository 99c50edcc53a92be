"""Channels of gRPC go only where requests go, and to nobody but whom the certificate names."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from pytest_django import Settings

from common.egress import EgressBlocked, grpc_channels
from tests.egress.far_side import PUBLIC, Listener, NameServers
from tests.egress.tls import Certificate, self_signed

pytestmark = pytest.mark.capability("OPS-01")
T = TypeVar("T")
NAME = "tools.example"


class Echo(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs alone
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def answer(request: bytes, _context: Any) -> bytes:
            return request

        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def serving(certificate: Certificate | None = None) -> AsyncIterator[int]:
    server = grpc.aio.server(handlers=[Echo()])
    if certificate:
        pair = certificate.key.read_bytes(), certificate.file.read_bytes()
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def echo(url: str, said: bytes = b"hello", *, largest: int = 1000) -> bytes:
    async with grpc_channels.open_channel(url, max_message_bytes=largest) as opened:
        return bytes(await opened.unary_unary("/any/Echo", None, None)(said))


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def whole() -> T:
        async with asyncio.timeout(20):
            return await main()

    return asyncio.run(whole())


@pytest.fixture(autouse=True)
def _no_roots_kept() -> Iterator[None]:
    grpc_channels._read_root_certificates.cache_clear()
    yield
    grpc_channels._read_root_certificates.cache_clear()


def allow(settings: Settings, place: str) -> None:
    settings.EGRESS_ALLOW = frozenset({place})


def test_an_allowed_place_is_spoken_to_and_no_proxy_is_asked(
    settings: Settings, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")

    async def main() -> bytes:
        async with serving() as port:
            allow(settings, f"127.0.0.1:{port}")
            return await echo(f"http://127.0.0.1:{port}")

    assert run(main) == b"hello"
    assert listener.count() == 0


@pytest.mark.parametrize("trusted", [True, False])
def test_by_tls_the_certificate_has_to_be_that_of_the_name(
    trusted: bool,
    settings: Settings,
    name_servers: NameServers,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name_servers.answers[NAME] = [["127.0.0.1"]]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    shown = certificate if trusted else self_signed(tmp_path, NAME)

    async def main() -> bytes:
        async with serving(shown) as port:
            allow(settings, f"{NAME}:{port}")
            return await echo(f"https://{NAME}:{port}")

    if trusted:
        assert run(main) == b"hello"
    else:
        with pytest.raises(ConnectionError):
            run(main)


def test_a_trusted_certificate_of_another_name_is_refused(
    settings: Settings, name_servers: NameServers, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_servers.answers["other.example"] = [["127.0.0.1"]]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))

    async def main() -> bytes:
        async with serving(certificate) as port:
            allow(settings, f"other.example:{port}")
            return await echo(f"https://other.example:{port}")

    with pytest.raises(ConnectionError):
        run(main)


@pytest.mark.parametrize("answers", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["169.254.169.254"]])
def test_a_name_that_leads_inside_is_not_connected_to(
    answers: list[str], listener: Listener, name_servers: NameServers
) -> None:
    name_servers.answers[NAME] = [answers]
    with pytest.raises(EgressBlocked):
        run(lambda: echo(f"https://{NAME}:{listener.port}"))
    assert listener.count() == 0


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{}", "https://127.0.0.1:{}", "http://tools.example:{}", "grpc://a:{}"]
)
def test_what_may_not_be_called_by_http_may_not_by_grpc(url: str, listener: Listener) -> None:
    with pytest.raises(EgressBlocked):
        run(lambda: echo(url.format(listener.port)))
    assert listener.count() == 0


def test_where_nothing_listens_is_found_out_at_once(settings: Settings, listener: Listener) -> None:
    allow(settings, f"127.0.0.1:{listener.port}")
    listener.close()
    with pytest.raises(ConnectionError):
        run(lambda: echo(f"http://127.0.0.1:{listener.port}"))


def test_a_family_of_addresses_that_is_out_of_reach_leaves_the_other(
    settings: Settings, name_servers: NameServers
) -> None:
    async def main() -> bytes:
        async with serving() as port:
            # Nothing listens at the first.
            name_servers.answers[NAME] = [["127.0.0.2", "::ffff:127.0.0.1"]]
            allow(settings, f"{NAME}:{port}")
            return await echo(f"http://{NAME}:{port}")

    assert run(main) == b"hello"


def test_a_message_that_is_too_large_is_not_taken(settings: Settings) -> None:
    async def main() -> None:
        async with serving() as port:
            allow(settings, f"127.0.0.1:{port}")
            await echo(f"http://127.0.0.1:{port}", b"x" * 1001)

    with pytest.raises(grpc.aio.AioRpcError) as raised:
        run(main)
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
