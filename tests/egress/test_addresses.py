"""Addresses that are not public, in every spelling, at each of the doors: the form, the check, the call."""

import aiohttp
import pytest
from aiohttp.typedefs import StrOrURL

from common import egress
from common.egress import addresses, client, resolver
from tests.egress.far_side import PUBLIC, Listener, NameServers, Wire, run

pytestmark = pytest.mark.capability("OPS-01")

#: As a name server would give them.
CLOSED = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "169.254.0.1", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe", "64:ff9b::127.0.0.1", "64:ff9b:1::7f00:1", "100::1", "2001::1", "2001:0:7f00:1::",
    "2001:db8::1", "2001:2::1", "2001:10::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "5f00::1", "fc00::1",
    "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2606:2800:220:1::5efe:a00:1", "4000::1",
)  # fmt: skip
#: What is written for the loopback in some language or other, and what only looks like a name.
SPELLINGS = (
    "127.1", "127.0.1", "2130706433", "017700000001", "0177.0.0.1", "0x7f.1", "0x7f000001", "0X7F.0.0.1", "127.0.0.0x1",
    "127.0.0.01", "127.0.0.1.", "127.0.0.1..", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.0.0.1", "１２７.0.0.1",
    "⑫7.0.0.1", "१२७.0.0.1", "4294967297", "256.256.256.256", "1.2.3.4.5", "localhost", "LOCALHOST", "localhost.",
    "api.localhost", "ｌocalhost", "[::1%25lo]", "[::1%lo]", "[fe80::1%25eth0]", "[v1.::1]", "[127.0.0.1]",
    "%31%32%37.0.0.1", "127%2e0.0.1", "127.0.0.1%00", "-.example.com", "a..b", ".", "host_", "x" * 64 + ".example",
)  # fmt: skip
NAMES_THAT_ARE_FINE = {"host_"}
URLS = (
    "", "tools.example", "//tools.example/", "https:tools.example", "https:/tools.example", "https:///tools.example",
    "https://", "https://:443/", "http://tools.example/", "HTTP://tools.example/", "ftp://tools.example/", "ws://tools.example/",
    "wss://tools.example/", "file:///etc/passwd", "gopher://tools.example/", "javascript:alert(1)", "unix:///tmp/socket",
    "https://user@tools.example/", "https://user:secret@tools.example/", "https://@tools.example/",
    "https://tools.example@127.0.0.1/", "https://tools.example#@127.0.0.1/", "https://tools.example/#part",
    "https://tools.example\\@127.0.0.1/", "https://tools.example:0/", "https://tools.example:65536/",
    "https://tools.example:/", "https://tools.example:８０/", "https://tools.example:-1/", "https://tools.example:80:90/",
    "https://::1/", "https://[::1/", "https://[::1]tools.example/", "https://tools.example[::1]/", "https://[::1]:x/",
    " https://tools.example/", "https://tools.example/\n", "https://tools.example/ x", "https://tools\t.example/",
    "https://tools.example/\r\nHost: x", "https://tools\u200b.example/", "https://tools\u00ad.example/",
    "https://tools.example/\x00", "https://tools.example／", "https://tools℀.example/",
    "https://tools.example/" + "x" * 4000, "https://１.1.1.1/", "https://1。1。1。1/",
)  # fmt: skip
GOOD = (
    "https://tools.example/mcp", "https://tools.example", "HTTPS://Tools.Example:8443/mcp?a=b", "https://1.1.1.1/",
    "https://[2606:4700::1111]:8443/", "https://bücher.example/", "https://xn--bcher-kva.example/", "https://10.example/",
    "https://[::ffff:1.1.1.1]/", "https://[64:ff9b::101:101]/", "https://a_b.example:1/?x=@", "https://intranet/ä",
)  # fmt: skip


def at(host: str, port: int) -> str:
    return f"https://[{host}]:{port}/" if host.count(":") > 1 and "[" not in host else f"https://{host}:{port}/"


def refused(url: str, listener: Listener) -> None:
    """By all three doors, and nobody was connected to."""

    async def main(wire: Wire) -> None:
        with pytest.raises(egress.EgressBlocked) as checked:
            await egress.check_url(url)
        with pytest.raises(egress.EgressBlocked) as called:
            await egress.open_session().get(url)
        assert checked.value.message == called.value.message == said
        assert checked.value.code == "egress_blocked"
        assert wire.connected == []

    said = egress.find_url_problem(url)
    assert said.endswith(".")
    run(main)
    assert listener.count() == 0


@pytest.mark.parametrize("address", CLOSED)
def test_an_address_that_is_not_public_is_refused(address: str, listener: Listener, name_servers: NameServers) -> None:
    refused(at(address, listener.port), listener)
    assert name_servers.asked == []


@pytest.mark.parametrize("host", [host for host in SPELLINGS if host not in NAMES_THAT_ARE_FINE])
def test_no_spelling_gets_past(host: str, listener: Listener) -> None:
    refused(f"https://{host}:{listener.port}/", listener)
    assert egress.find_url_problem(f"http://{host}:{listener.port}/")


@pytest.mark.parametrize("url", URLS)
def test_what_is_no_plain_https_url_is_refused(url: str, listener: Listener, name_servers: NameServers) -> None:
    refused(url, listener)
    assert name_servers.asked == []


@pytest.mark.parametrize("url", GOOD)
def test_public_places_are_fine(url: str) -> None:
    assert egress.find_url_problem(url) == ""


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("tools.example", "Write a whole URL"),
        ("https://tools.example /", "Take the spaces"),
        ("https://user:secret@tools.example/", "Take the user name and password out"),
        ("https://tools.example/#a", "Take the # "),
        ("https://tools.example:99999/", "The port must be a number from 1 to 65535"),
        ("https://tools.example./", "Leave out the dot"),
        ("https://[fe80::1%25eth0]/", "Leave out the %"),
        ("https://-/", "neither a name nor an address"),
        ("https://0x7f.1/", "four plain numbers"),
        ("http://tools.example/", "can allow http: add tools.example:80 to the setting EGRESS_ALLOW and restart."),
        ("https://[::1]:9000/", "can allow it: add [::1]:9000 to the setting EGRESS_ALLOW and restart."),
        ("ftp://tools.example/", "Only https is called."),
    ],
)  # fmt: skip
def test_the_sentence_says_what_to_do(url: str, said: str) -> None:
    assert said in egress.find_url_problem(url)
    assert "secret@" not in egress.find_url_problem(url)


@pytest.mark.parametrize("address", CLOSED)
def test_a_name_that_leads_there_is_refused_and_the_address_not_told(
    address: str, listener: Listener, name_servers: NameServers
) -> None:
    name_servers.answers["tools.example"] = [[address]]
    url = f"https://tools.example:{listener.port}/"

    async def main(wire: Wire) -> None:
        for door in (egress.check_url(url), egress.open_session().get(url)):
            with pytest.raises(egress.EgressBlocked) as raised:
                await door
            assert "tools.example leads to an address" in raised.value.message
            assert address not in raised.value.message
        assert wire.connected == []

    assert egress.find_url_problem(url) == ""
    run(main)
    assert listener.count() == 0


@pytest.mark.parametrize("host", [*CLOSED, *SPELLINGS])
def test_the_connector_guards_by_itself(host: str, listener: Listener, names_are_loopback: None) -> None:
    """Also a session that is not ours, on a connector that is."""

    async def main(wire: Wire) -> None:
        async with aiohttp.ClientSession(
            connector=client.GuardedConnector(resolver=resolver.GuardedResolver())
        ) as bare:
            with pytest.raises((egress.EgressBlocked, aiohttp.InvalidURL)):
                await bare.get(at(host, listener.port))
        assert wire.connected == []

    run(main)
    assert listener.count() == 0


@pytest.fixture
def names_are_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_query_system_resolver", lambda *question: ["127.0.0.1"])


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete", "head", "options", "ws_connect"])
def test_every_kind_of_request_is_guarded(method: str, listener: Listener) -> None:
    async def main(wire: Wire) -> None:
        with pytest.raises(egress.EgressBlocked):
            await getattr(egress.open_session(), method)(f"https://127.0.0.1:{listener.port}/")

    run(main)
    assert listener.count() == 0


def test_the_listener_counts_whoever_connects(listener: Listener) -> None:
    """Else none of the zeros here would mean anything."""

    async def plain(url: StrOrURL) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.2)) as bare:
            with pytest.raises(TimeoutError):
                await bare.get(url)

    async def main(wire: Wire) -> list[str]:
        await plain(f"http://127.0.0.1:{listener.port}/")
        return wire.connected

    assert run(main) == ["127.0.0.1"]
    assert listener.count() == 1


@pytest.mark.parametrize("address", ["", "example.com", "1.2.3", PUBLIC + "x"])
def test_what_is_no_address_is_not_public(address: str) -> None:
    assert not addresses.is_public_address(address)
