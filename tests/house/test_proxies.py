"""Whose word is taken for a caller's address: that of trusted proxies, at every door, and nobody else's."""

import asyncio
import http.client
import json
from collections.abc import Sequence
from contextlib import closing
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import grpc
import pytest

from a2a.grpc_door import heads
from common.asgi.client_address import DEFAULT_TRUSTED_NETWORKS, find_client_address
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import RefusedAuthentication
from tests.a2a.conftest import Stage, open_stage
from tests.a2a.grpc.door import NEW, Client
from tests.a2a.grpc.test_end_to_end import at
from tests.supervisor.conftest import open_directory, program
from tests.supervisor.sessions import webs

__all__ = ["open_directory", "open_stage", "program"]
pytestmark = [pytest.mark.capability("OPS-02", "NHI-04")]
#: What a caller says it is, and the one network from which its credential may be shown.
CLAIMED, ALLOWED = "198.51.100.7", "198.51.100.0/24"
PROXY, OTHER, FAR = "10.0.3.7", "10.0.3.8", "203.0.113.9"

#: Peer, header, number of proxies, and the source.
SOURCES: list[tuple[str, str, int, str]] = [
    # No proxy is trusted: the header is not read.
    (FAR, CLAIMED, 0, FAR),
    (PROXY, CLAIMED, 0, PROXY),
    # One: what it appended counts, what stands before that is the caller's own.
    (PROXY, CLAIMED, 1, CLAIMED),
    (PROXY, f"192.0.2.1, {CLAIMED}", 1, CLAIMED),
    (PROXY, f"{CLAIMED}, ", 1, CLAIMED),
    (PROXY, "", 1, PROXY),
    # Somebody who comes past it is no proxy, private address or not.
    (FAR, CLAIMED, 1, FAR),
    (OTHER, CLAIMED, 1, OTHER),
    ("127.0.0.1", CLAIMED, 1, "127.0.0.1"),
    ("::1", CLAIMED, 1, "::1"),
    # Two: the second entry counts only where a trusted proxy wrote it.
    (PROXY, f"{CLAIMED}, 10.9.0.1", 2, CLAIMED),
    (PROXY, f"192.0.2.1, {CLAIMED}, 10.9.0.1", 2, CLAIMED),
    (PROXY, f"192.0.2.1, {CLAIMED}", 2, CLAIMED),
    (PROXY, f"{CLAIMED}, {FAR}", 2, FAR),
    (PROXY, CLAIMED, 2, CLAIMED),
    (PROXY, "10.9.0.1", 2, "10.9.0.1"),
    # However it is written.
    ("::ffff:10.0.3.7", CLAIMED, 1, CLAIMED),
    (PROXY, "2001:DB8::1", 1, "2001:db8::1"),
    # A garbled entry is no address, and what stands before it is nobody's word.
    (PROXY, "unknown", 1, ""),
    (PROXY, f"{CLAIMED}, unknown", 2, ""),
    # A Unix socket has no address: who may open it is on this machine, and was let in by its mode.
    ("", CLAIMED, 1, CLAIMED),
    ("", "", 1, ""),
    ("not an address", CLAIMED, 1, ""),
]


@pytest.mark.parametrize("peer, header, proxies, source", SOURCES)
def test_an_entry_counts_while_a_trusted_proxy_wrote_it(
    settings: Any, peer: str, header: str, proxies: int, source: str
) -> None:
    settings.TRUSTED_PROXY_NETWORKS = (ip_network("10.0.3.7"), ip_network("10.9.0.0/16"))
    assert find_client_address(peer=peer, forwarded_for=header, proxy_count=proxies) == source


@pytest.mark.parametrize("peer, is_believed", [
    ("127.0.0.1", True), ("::1", True), ("10.1.2.3", True), ("172.31.255.1", True), ("192.168.4.4", True),
    ("fd00::7", True), (FAR, False), ("172.32.0.1", False), ("2001:db8::1", False), ("169.254.169.254", False),
])  # fmt: skip
def test_by_default_loopback_and_private_addresses_are_believed(settings: Any, peer: str, is_believed: bool) -> None:
    assert tuple(map(ip_network, DEFAULT_TRUSTED_NETWORKS)) == settings.TRUSTED_PROXY_NETWORKS
    assert (find_client_address(peer=peer, forwarded_for=CLAIMED, proxy_count=1) == CLAIMED) == is_believed


def http_doors(token: str) -> list[tuple[str, str, dict[str, str], str]]:
    """Method, path, headers and body: one request for each way through the web port."""
    bearer, public_id = {"Authorization": f"Bearer {token}"}, token.split("_")[2]
    as_json = {**bearer, "Content-Type": "application/json"}
    listing = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
    form = urlencode({"grant_type": "client_credentials", "client_id": public_id, "client_secret": token})
    return [
        ("GET", "/api/nhi/me", bearer, ""),
        ("POST", "/api/nhi/mcp/tools/peer__echo/call", as_json, "{}"),
        ("POST", "/agents/writer/", {**as_json, "A2A-Version": "1.0"}, json.dumps(listing)),
        ("POST", "/oauth/token", {"Content-Type": "application/x-www-form-urlencoded"}, form),
    ]


def ask(port: int, source: str, door: tuple[str, str, dict[str, str], str], claimed: str = CLAIMED) -> str:
    """`401` where the credential may not be shown from there; else that it was let in."""
    method, path, headers, body = door
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30, source_address=(source, 0))) as link:
        link.request(method, path, body, {**headers, "X-Forwarded-For": claimed})
        reply = link.getresponse()
        reply.read()
    return "refused" if reply.status == 401 else "let in"


@pytest.mark.django_db(transaction=True)
@pytest.mark.xdist_group("house")
@pytest.mark.usefixtures("program")
def test_over_the_wire_only_the_proxy_is_believed(open_stage: Stage, tmp_path: Path, broker: str) -> None:
    """The exploit: who reaches the web port past the proxy says it comes from where the credential may be used."""
    issued = credentials.issue(actor=SYSTEM, holder=open_stage.writer, allowed_networks=[ALLOWED])
    environ = {"TRUSTED_PROXIES": "1", "TRUSTED_PROXY_NETWORKS": "127.0.0.2/32"}
    with webs.serving(tmp_path, broker, issued.token, **environ) as web:
        for door in http_doors(issued.token):
            assert ask(web.port, "127.0.0.1", door) == "refused", door[1]
            assert ask(web.port, "127.0.0.2", door) == "let in", door[1]
            assert ask(web.port, "127.0.0.2", door, f"{CLAIMED}, {FAR}") == "refused", door[1]
    refused = RefusedAuthentication.objects.filter(public_id=issued.credential.public_id)
    assert {row.source for row in refused} <= {"127.0.0.1", FAR}


async def called(stage: Stage, token: str, claimed: str = CLAIMED) -> str:
    metadata: Sequence[tuple[str, str]] = [
        ("authorization", f"Bearer {token}"), ("x-gatehouse-agent", "writer"), ("x-forwarded-for", claimed),
    ]  # fmt: skip
    client: Client
    async with at(stage) as client:
        try:
            await client.ask(NEW["ListTasks"], {}, metadata)
        except grpc.aio.AioRpcError as error:
            return "refused" if error.code() is grpc.StatusCode.UNAUTHENTICATED else str(error.code())
    return "let in"


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.parametrize("web, own, networks, outcome", [
    # The exploit: the number of proxies before the web port says nothing of the gRPC port.
    (1, 0, ["127.0.0.1"], "refused"),
    (1, 1, ["127.0.0.2"], "refused"),
    (0, 1, ["127.0.0.1"], "let in"),
    (0, 1, list(DEFAULT_TRUSTED_NETWORKS), "let in"),
])  # fmt: skip
def test_grpc_has_its_own_number(
    open_stage: Stage, settings: Any, web: int, own: int, networks: list[str], outcome: str
) -> None:
    settings.TRUSTED_PROXIES, settings.GRPC_TRUSTED_PROXIES = web, own
    settings.TRUSTED_PROXY_NETWORKS = tuple(map(ip_network, networks))
    issued = credentials.issue(actor=SYSTEM, holder=open_stage.writer, allowed_networks=[ALLOWED])
    assert asyncio.run(called(open_stage, issued.token)) == outcome
    assert asyncio.run(called(open_stage, issued.token, FAR)) == "refused"


def test_a_unix_socket_of_grpc_is_local(settings: Any) -> None:
    settings.GRPC_TRUSTED_PROXIES = 1
    head = heads.read([("x-forwarded-for", CLAIMED)], "unix:/run/gatehouse/grpc.sock")
    assert head.source == CLAIMED


@pytest.mark.django_db
@pytest.mark.parametrize("peer, is_secure", [("10.0.3.7", True), ("10.0.3.8", False)])
def test_only_a_trusted_proxy_says_that_its_peer_spoke_tls(
    settings: Any, client: Any, peer: str, is_secure: bool
) -> None:
    settings.TRUSTED_PROXIES, settings.TRUSTED_PROXY_NETWORKS = 1, (ip_network("10.0.3.7"),)
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    answer = client.get("/healthz", REMOTE_ADDR=peer, headers={"X-Forwarded-Proto": "https"})
    assert answer.wsgi_request.is_secure() == is_secure
