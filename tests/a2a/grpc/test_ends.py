"""How calls and the server itself end: clients that leave, deadlines, stops, TLS, ports that are taken."""

import asyncio
import socket
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from a2a.grpc_door import health, serving
from a2a.grpc_door.door import Door
from a2a.grpc_door.serving import CannotListen, Certificate, Serving
from tests.a2a.grpc.door import LONGEST, NEW, TASK, Client, Scripted, served

pytestmark = pytest.mark.capability("A2A-03")


async def never() -> None:
    await asyncio.Event().wait()


def test_a_client_that_leaves_ends_its_stream_and_nothing_else() -> None:
    async def run() -> None:
        operations = Scripted(items=[{"task": TASK}], patience=never)
        async with served(operations) as (_, client):
            call = client.follow(NEW["SubscribeToTask"], {"id": "t"})
            assert (await call.read()).task.id == "t"
            call.cancel()
            await asyncio.wait_for(operations.closed.wait(), LONGEST)
            operations.patience, operations.answers = None, deque([TASK])
            assert (await client.ask(NEW["GetTask"], {"id": "t"}))["id"] == "t"
        assert [asked.operation for asked in operations.asked] == ["SubscribeToTask", "GetTask"]

    asyncio.run(run())


@pytest.mark.parametrize("streams", [True, False])
def test_a_deadline_ends_the_call(streams: bool) -> None:
    async def run() -> None:
        operations = Scripted(patience=never)
        async with served(operations) as (_, client):
            asked = (
                client.follow(NEW["SubscribeToTask"], {"id": "t"}, timeout=0.2).read()
                if streams
                else client.ask(NEW["GetTask"], {"id": "t"}, timeout=0.2)
            )
            refused = await client.refused(asked)
            assert refused.code is grpc.StatusCode.DEADLINE_EXCEEDED
            await asyncio.wait_for(operations.closed.wait(), LONGEST)

    asyncio.run(run())


def test_a_stop_tells_streams_why_and_lets_calls_finish() -> None:
    async def run() -> None:
        freed = asyncio.Event()
        following = Scripted(items=[{"task": TASK}], patience=never)
        asking = Scripted(deque([TASK]), patience=freed.wait)
        following.answer = asking.answer  # type: ignore[method-assign]  # one door, two scripts
        async with served(following) as (running, client):
            call = client.follow(NEW["SubscribeToTask"], {"id": "t"})
            assert (await call.read()).task.id == "t"
            answer = asyncio.ensure_future(client.ask(NEW["GetTask"], {"id": "t"}))
            await asyncio.wait_for(asking.begun.wait(), LONGEST)
            stopped = asyncio.ensure_future(running.stop())
            refused = await client.refused(call.read())
            assert (refused.code, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
            assert "stop" in refused.message
            freed.set()
            assert (await answer)["id"] == "t"
            await asyncio.wait_for(stopped, LONGEST)

    asyncio.run(run())


def test_a_call_that_does_not_finish_hears_of_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "GRACE", 0.1)

    async def run() -> None:
        operations = Scripted(patience=never)
        async with served(operations) as (running, client):
            asked = asyncio.ensure_future(client.refused(client.ask(NEW["GetTask"], {"id": "t"})))
            await asyncio.wait_for(operations.begun.wait(), LONGEST)
            await asyncio.wait_for(running.stop(), LONGEST)
            assert (await asked).reason == "UNAVAILABLE"

    asyncio.run(run())


def test_a_message_larger_than_the_limit_is_refused() -> None:
    async def run() -> None:
        async with served(Scripted()) as (_, client):
            refused = await client.refused(client.send(NEW["GetTask"], bytes(serving.LARGEST + 1)))
            assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED

    asyncio.run(run())


def test_probes_are_told_whether_it_serves() -> None:
    async def check(client: Client) -> bytes:
        ask: Any = client.channel.unary_unary(health.CHECK)
        return bytes(await ask(b"", timeout=LONGEST))

    async def run() -> None:
        async with served(Scripted()) as (running, client):
            assert await check(client) == b"\x08\x01"
            running._is_serving = False
            assert await check(client) == b"\x08\x02"

    asyncio.run(run())


def test_what_the_services_do_not_have_is_unimplemented() -> None:
    async def run() -> None:
        async with served(Scripted()) as (_, client):
            ask: Any = client.channel.unary_unary("/lf.a2a.v1.A2AService/Dance")
            assert (await client.refused(ask(b"", timeout=LONGEST))).code is grpc.StatusCode.UNIMPLEMENTED

    asyncio.run(run())


def test_a_taken_port_is_named() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(CannotListen, match=f"127.0.0.1:{port} cannot be had"):
                Serving(Door(Scripted()), address="127.0.0.1", port=port)

    asyncio.run(run())


def test_with_a_certificate_calls_are_private(tmp_path: Path) -> None:
    async def run() -> None:
        certificate = made_in(tmp_path)
        async with served(Scripted(deque([TASK])), certificate=certificate) as (running, plain):
            credentials = grpc.ssl_channel_credentials(certificate.chain.read_bytes())
            async with grpc.aio.secure_channel(f"localhost:{running.port}", credentials) as channel:
                assert (await Client(channel).ask(NEW["GetTask"], {"id": "t"}))["id"] == "t"
            refused = await plain.refused(plain.ask(NEW["GetTask"], {"id": "t"}))
            assert refused.code is grpc.StatusCode.UNAVAILABLE

    asyncio.run(run())


def made_in(place: Path) -> Certificate:
    """A certificate for this machine's own name, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate = Certificate(place / "chain.pem", place / "key.pem")
    certificate.chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    certificate.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return certificate
