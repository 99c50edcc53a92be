"""Which URLs may be called, judged by their text. Nothing here uses the network.

The parser is that of the HTTP client, so the URL that is checked is the URL that is called. The allowlist is part of
the keys of both caches.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address

from django.conf import settings
from yarl import URL

from common.egress.addresses import is_public_address
from common.errors import GatehouseError

MAX_URL_LENGTH = 4000
URL_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?P<authority>[^/?#]+)(?P<rest>.*)")
PORT_PATTERN = re.compile(r"0{0,4}[1-9][0-9]{0,4}")
LABEL_PATTERN = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST_NAME_PATTERN = re.compile(rf"(?=.{{1,253}}\Z){LABEL_PATTERN}(?:\.{LABEL_PATTERN})*")
#: Some software reads a host whose last label is a number as an address, in unusual bases and lengths.
NUMERIC_HOST_PATTERN = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")

INCOMPLETE_URL = "Write a whole URL: https://, the host and what follows, such as https://tools.example.com/path."
UNPRINTABLE_URL = "Take the spaces, backslashes and invisible characters out of the URL."
WITH_USER = "Take the user name and password out of the URL, up to the @; a secret has a place of its own."
WITH_FRAGMENT = "Take the # and what follows out of the URL; a server never sees it."
BAD_PORT = "The port must be a number from 1 to 65535, and an IPv6 address stands in brackets."
BAD_HOST = "The host in this URL is neither a name nor an address."
BAD_ADDRESS = "Write the address as four plain numbers, such as 192.0.2.10: this one can be read in more than one way."


class EgressBlocked(GatehouseError):
    """Gatehouse does not call this URL. The message never contains the address of a host name."""

    code = "egress_blocked"


def find_url_problem(url: str) -> str:
    """Why `url` may not be called, as a sentence for the person who entered it; empty if it may be called."""
    return _find_url_problem_cached(url, settings.EGRESS_ALLOW)


def find_origin_problem(url: URL) -> str:
    """The same for the scheme, host and port of a parsed URL."""
    return _find_origin_problem_cached(url.scheme, url.raw_host or "", url.port or 0, settings.EGRESS_ALLOW)


def is_allowlisted(host: str, port: int) -> bool:
    """Whether EGRESS_ALLOW contains exactly this host and port."""
    return _allowlist_entry(host, port) in settings.EGRESS_ALLOW


def is_numeric_host(host: str) -> bool:
    return ":" in host or NUMERIC_HOST_PATTERN.fullmatch(host) is not None


def find_non_public_problem(subject: str, host: str, port: int) -> str:
    return f"{subject} private, local or reserved. {allowlist_hint('it', _allowlist_entry(host, port))}"


def allowlist_hint(subject: str, entry: str) -> str:
    """How to allow `entry`. It is a setting of the machine: no role in the console can change it."""
    return f"Whoever runs Gatehouse can allow {subject}: add {entry} to the setting EGRESS_ALLOW and restart."


@lru_cache(maxsize=1024)
def _find_url_problem_cached(url: str, allowed: frozenset[str]) -> str:
    if len(url) > MAX_URL_LENGTH:
        return f"The URL is longer than {MAX_URL_LENGTH} characters."
    if not url.isprintable() or " " in url or "\\" in url:
        return UNPRINTABLE_URL
    match = URL_PATTERN.fullmatch(url)
    if match is None:
        return INCOMPLETE_URL
    return _find_authority_problem(match["authority"], match["rest"]) or _find_parsed_url_problem(
        url, match["authority"], allowed
    )


def _find_authority_problem(authority: str, rest: str) -> str:
    if "@" in authority:
        return WITH_USER
    if "#" in rest:
        return WITH_FRAGMENT
    _, colon, port = authority.rpartition("]")[2].partition(":")
    return BAD_PORT if colon and not (PORT_PATTERN.fullmatch(port) and int(port) <= 65535) else ""


def _find_parsed_url_problem(url: str, authority: str, allowed: frozenset[str]) -> str:
    try:
        parsed_url = URL(url)
    except ValueError:
        return BAD_HOST
    host = parsed_url.raw_host or ""
    if is_numeric_host(host) and not authority.isascii():
        return BAD_ADDRESS
    return _find_origin_problem_cached(parsed_url.scheme, host, parsed_url.port or 0, allowed)


@lru_cache(maxsize=1024)
def _find_origin_problem_cached(scheme: str, host: str, port: int, allowed: frozenset[str]) -> str:
    entry = _allowlist_entry(host, port)
    if spelling_problem := _find_host_spelling_problem(host):
        return spelling_problem
    if scheme not in ("http", "https"):
        return "Only https is called."
    if entry in allowed:
        return ""
    if scheme == "http":
        return f"Only https is called. {allowlist_hint('http', entry)}"
    if host == "localhost" or host.endswith(".localhost") or (is_numeric_host(host) and not is_public_address(host)):
        return find_non_public_problem(f"{host} is", host, port)
    return ""


def _find_host_spelling_problem(host: str) -> str:
    """Why the spelling of the host is refused: each host has one accepted spelling."""
    if ":" in host:
        return "Leave out the % and what follows: it means another place on each machine." if "%" in host else ""
    if NUMERIC_HOST_PATTERN.fullmatch(host):
        return "" if _is_dotted_decimal(host) else BAD_ADDRESS
    if host.endswith("."):
        return "Leave out the dot at the end of the host."
    return "" if HOST_NAME_PATTERN.fullmatch(host) else BAD_HOST


def _is_dotted_decimal(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _allowlist_entry(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
