"""Which URLs may be called, as far as their text tells. Nothing here asks the network.

The parser is the client's own, so that what is judged is what is called. Both caches take the allowed places as a part
of the question.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address

from django.conf import settings
from yarl import URL

from common.egress.addresses import is_public
from common.errors import GatehouseError

LONGEST = 4000
WHOLE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?P<authority>[^/?#]+)(?P<rest>.*)")
PORT = re.compile(r"0{0,4}[1-9][0-9]{0,4}")
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(?:\.{LABEL})*")
#: A host whose last label is a number is read as an address by some, in bases and lengths that few expect.
NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")

NOT_WHOLE = "Write a whole URL: https://, the host and what follows, such as https://tools.example.com/path."
NOT_PLAIN = "Take the spaces, backslashes and invisible characters out of the URL."
WITH_USER = "Take the user name and password out of the URL, up to the @; a secret has a place of its own."
WITH_FRAGMENT = "Take the # and what follows out of the URL; a server never sees it."
BAD_PORT = "The port must be a number from 1 to 65535, and an IPv6 address stands in brackets."
BAD_HOST = "The host in this URL is neither a name nor an address."
BAD_ADDRESS = "Write the address as four plain numbers, such as 192.0.2.10: this one can be read in more than one way."


class EgressBlocked(GatehouseError):
    """Gatehouse does not call this. The message never tells which address a name leads to."""

    code = "egress_blocked"


def problem(url: str) -> str:
    """Why `url` may not be called, as a sentence for whoever typed it; empty when it may."""
    return _problem(url, settings.EGRESS_ALLOW)


def place_problem(url: URL) -> str:
    """The same of a URL that the client has read: its scheme, host and port."""
    return _place(url.scheme, url.raw_host or "", url.port or 0, settings.EGRESS_ALLOW)


def is_allowed(host: str, port: int) -> bool:
    """Whether whoever runs Gatehouse named exactly this place."""
    return _entry(host, port) in settings.EGRESS_ALLOW


def is_address(host: str) -> bool:
    return ":" in host or NUMBER.fullmatch(host) is not None


def not_public(what: str, host: str, port: int) -> str:
    return f"{what} private, local or reserved. {way_on('it', _entry(host, port))}"


def way_on(what: str, entry: str) -> str:
    """No role of the console can: it is a setting of the machine."""
    return f"Whoever runs Gatehouse can allow {what}: add {entry} to the setting EGRESS_ALLOW and restart."


@lru_cache(maxsize=1024)
def _problem(url: str, allowed: frozenset[str]) -> str:
    if len(url) > LONGEST:
        return f"The URL is longer than {LONGEST} characters."
    if not url.isprintable() or " " in url or "\\" in url:
        return NOT_PLAIN
    whole = WHOLE.fullmatch(url)
    if whole is None:
        return NOT_WHOLE
    return _parts(whole["authority"], whole["rest"]) or _read(url, whole["authority"], allowed)


def _parts(authority: str, rest: str) -> str:
    if "@" in authority:
        return WITH_USER
    if "#" in rest:
        return WITH_FRAGMENT
    _, colon, port = authority.rpartition("]")[2].partition(":")
    return BAD_PORT if colon and not (PORT.fullmatch(port) and int(port) <= 65535) else ""


def _read(url: str, authority: str, allowed: frozenset[str]) -> str:
    try:
        read = URL(url)
    except ValueError:
        return BAD_HOST
    host = read.raw_host or ""
    if is_address(host) and not authority.isascii():
        return BAD_ADDRESS
    return _place(read.scheme, host, read.port or 0, allowed)


@lru_cache(maxsize=1024)
def _place(scheme: str, host: str, port: int, allowed: frozenset[str]) -> str:
    entry = _entry(host, port)
    if odd := _host(host):
        return odd
    if scheme not in ("http", "https"):
        return "Only https is called."
    if entry in allowed:
        return ""
    if scheme == "http":
        return f"Only https is called. {way_on('http', entry)}"
    if host == "localhost" or host.endswith(".localhost") or (is_address(host) and not is_public(host)):
        return not_public(f"{host} is", host, port)
    return ""


def _host(host: str) -> str:
    """What is wrong with the spelling, whatever it may mean: one spelling for each place."""
    if ":" in host:
        return "Leave out the % and what follows: it means another place on each machine." if "%" in host else ""
    if NUMBER.fullmatch(host):
        return "" if _is_plain(host) else BAD_ADDRESS
    if host.endswith("."):
        return "Leave out the dot at the end of the host."
    return "" if NAME.fullmatch(host) else BAD_HOST


def _is_plain(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _entry(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
