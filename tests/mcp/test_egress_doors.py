"""Addresses that are nobody's business, at every door where a server's address is typed, and when it is called."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from common.errors import GatehouseError, InvalidInput
from mcp.models import HealthReport, Server
from mcp.servers import health, lifecycle
from nhi.models import InvocationLog
from tests.egress.far_side import Listener
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("MCP-01", "MCP-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
#: `PORT` is that of a listener that counts who connects.
PLACES = (
    "http://127.0.0.1:PORT/mcp", "https://127.0.0.1:PORT/mcp", "https://localhost:PORT/", "https://LOCALHOST.:PORT/",
    "https://127.1:PORT/", "https://127.0.1:PORT/", "https://2130706433:PORT/", "https://0x7f.1:PORT/",
    "https://0x7f000001:PORT/", "https://0177.0.0.1:PORT/", "https://017700000001:PORT/", "https://127。0。0。1:PORT/",
    "https://①②⑦.0.0.1:PORT/", "https://１２７.0.0.1:PORT/", "https://[::1]:PORT/", "https://[::]:PORT/",
    "https://[::ffff:127.0.0.1]:PORT/", "https://[::127.0.0.1]:PORT/", "https://[64:ff9b::127.0.0.1]:PORT/",
    "https://[64:ff9b:1::7f00:1]:PORT/", "https://[2002:7f00:1::]:PORT/", "https://[::1%25lo]:PORT/",
    "https://0.0.0.0:PORT/", "https://0:PORT/", "https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/", "https://100.100.100.200/",
    "https://168.63.129.16/", "https://224.0.0.1/", "https://255.255.255.255/", "https://[fe80::1]/",
    "https://[fec0::1]/", "https://[ff02::1]/", "https://192.0.2.1/", "https://198.18.0.1/",
    "http://tools.example/mcp", "ftp://tools.example/", "file:///etc/passwd", "gopher://127.0.0.1:PORT/", "unix:///tmp/x",
    "javascript:alert(1)", "https://user:pass@tools.example/", "https://tools.example@127.0.0.1:PORT/",
    "https://tools.example#@127.0.0.1:PORT/", "https://tools.example\\@127.0.0.1:PORT/",
    "https://127.0.0.1:PORT\r\nHost: x/", " https://127.0.0.1:PORT/", "//127.0.0.1:PORT/", "127.0.0.1:PORT", "",
)  # fmt: skip
Door = Callable[[Scene, str, str], object]


def create(made: Scene, transport: str, url: str) -> object:
    given = {"transport": transport, "base_url": url}
    return lifecycle.create(
        actor=cast.admin(), name="another", owner=cast.user("olga", "operator"), configuration=given
    )


def change(made: Scene, transport: str, url: str) -> object:
    return lifecycle.change(actor=cast.admin(), server=made.server, transport=transport, base_url=url)


DOORS: dict[str, Door] = {"create": create, "change": change}


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def test_there_are_enough_of_them() -> None:
    assert len(PLACES) >= 35


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("door", DOORS)
def test_each_is_refused_by_name_and_nobody_is_connected_to(
    made: Scene, server: Peer, listener: Listener, door: str, transport: str
) -> None:
    wrong = []
    for place in PLACES:
        url = place.replace("PORT", str(listener.port))
        try:
            DOORS[door](made, transport, url)
        except InvalidInput as error:
            named = [one.field for one in error.fields]
            if named != ["base_url"]:
                wrong.append(f"{url!r}: names {named}")
        except Exception as error:
            wrong.append(f"{url!r}: {error!r}")
        else:
            wrong.append(f"{url!r}: taken")
    assert not wrong, "\n".join(wrong)
    assert listener.count() == 0
    assert made.server.base_url == server.url
    assert Server.objects.count() == 1
    assert HealthReport.objects.count() == 1, "nothing was met"


class Names:
    """Answers the way a name server does that means ill: well when it is asked first, and otherwise after that."""

    def __init__(self, *addresses: str) -> None:
        self.left = list(addresses)
        self.asked = 0

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        self.asked += 1
        address = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]


@pytest.mark.parametrize("leads_to", ["127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "::ffff:127.0.0.1"])
def test_a_name_that_leads_elsewhere_by_now_is_not_called(
    made: Scene, server: Peer, listener: Listener, leads_to: str, monkeypatch: Any
) -> None:
    """What was fine when it was saved is judged again for every connection."""
    Server.objects.update(base_url=f"https://rebound.example:{listener.port}/mcp")
    monkeypatch.setattr(socket, "getaddrinfo", Names(leads_to))
    outcome = made.call()
    assert (outcome.status, outcome.reason) == ("error", "upstream")
    assert leads_to not in outcome.message, "which address it was would map a network"
    report = health.check(server=made.server)
    assert not report.handshake_success
    assert leads_to not in report.error_message
    assert listener.count() == 0
    assert server.calls == []
    assert leads_to not in InvocationLog.objects.get().error_message


def test_a_name_that_leads_elsewhere_cannot_be_added_as_well(made: Scene, listener: Listener, monkeypatch: Any) -> None:
    """It is added, for names come and go; it stays offline, and nobody was connected to."""
    monkeypatch.setattr(socket, "getaddrinfo", Names("127.0.0.1"))
    try:
        found = create(made, "http", f"https://rebound.example:{listener.port}/mcp")
    except GatehouseError as error:
        assert [one.field for one in error.fields] == ["base_url"]
    else:
        assert isinstance(found, Server)
        assert found.status == "Offline"
    assert listener.count() == 0
