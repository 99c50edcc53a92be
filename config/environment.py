"""Readers for the environment. An odd value stops the start with a message that names the variable."""

import os
import pwd
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

# The kernel's structure holds 107 bytes and a zero.
LONGEST_SOCKET = 107
ENDPOINT = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)):([1-9][0-9]{0,4})")
TRUE, FALSE = {"1", "true", "yes", "on"}, {"", "0", "false", "no", "off"}


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def secrets(name: str, *, shortest: int) -> list[str]:
    """Comma-separated; the message repeats none of them."""
    values = words(name)
    if any(len(value) < shortest for value in values):
        raise ImproperlyConfigured(f"{name} must hold values of at least {shortest} characters, separated by commas.")
    return values


def flag(name: str, *, default: bool = False) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value not in TRUE | FALSE:
        raise ImproperlyConfigured(f"{name} must be 0 or 1, not {value!r}.")
    return value in TRUE


def number(name: str, default: int, *, low: int, high: int) -> int:
    value = text(name) or str(default)
    if not re.fullmatch(r"-?[0-9]{1,9}", value) or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name} must be a whole number from {low} to {high}, not {value!r}.")
    return int(value)


def factor(name: str, default: float, *, high: float) -> float:
    """What something of ours is multiplied by; a fraction makes it less."""
    value = text(name) or str(default)
    if not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value) or float(value) > high:
        raise ImproperlyConfigured(f"{name} must be a number from 0 to {high:g}, not {value!r}.")
    return float(value)


def url(name: str, schemes: set[str], default: str = "") -> str:
    value = text(name, default)
    parts = urlsplit(value)
    if value and (parts.scheme not in schemes or not (parts.netloc or parts.path.strip("/"))):
        raise ImproperlyConfigured(f"{name} must be a whole URL that starts with {' or '.join(sorted(schemes))}.")
    return value


def endpoints(name: str) -> frozenset[str]:
    """`host:port`, comma-separated, each in the one spelling that a URL's host and port are compared in."""
    return frozenset(_endpoint(name, word) for word in words(name))


def _endpoint(name: str, word: str) -> str:
    found = ENDPOINT.fullmatch(word.lower())
    try:
        if found is None or int(found[3]) > 65535:
            raise ValueError(word)
        if found[1]:
            return f"[{IPv6Address(found[1]).compressed}]:{found[3]}"
        if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", found[2].rpartition(".")[2]):
            return f"{IPv4Address(found[2])}:{found[3]}"
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name} must list exact places as host:port, without scheme, path or *; {word!r} is not one."
        ) from error
    return f"{found[2]}:{found[3]}"


def secret(name: str, *, shortest: int) -> str:
    """A secret that is sent in a header; empty where there is none. No message repeats it."""
    value = text(name)
    if value and not re.fullmatch(rf"[!-~]{{{shortest},}}", value):
        raise ImproperlyConfigured(f"{name} must have at least {shortest} characters, all printable ASCII, no spaces.")
    return value


def networks(name: str, default: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks in CIDR notation, comma-separated; an address without a length is that address alone."""
    return tuple(_network(name, word) for word in words(name) or default)


def _network(name: str, word: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(word)
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name} must list networks in CIDR notation, such as 10.0.3.0/24, with no bit set behind the length; "
            f"{word!r} is not one."
        ) from error
    if network.prefixlen == 0:
        raise ImproperlyConfigured(f"{name} must not hold {word!r}, which is every address there is.")
    return network


def directory(name: str, default: Path) -> Path:
    path = Path(text(name) or default).resolve()
    if path.exists() and not path.is_dir():
        raise ImproperlyConfigured(f"{name} must name a directory; {path} is a file.")
    return path


def file(name: str) -> Path | None:
    if not (value := text(name)):
        return None
    path = Path(value)
    if not path.is_absolute() or not path.is_file():
        raise ImproperlyConfigured(f"{name} must be the absolute path of a file that is there, not {value!r}.")
    return path


def directories(name: str) -> tuple[Path, ...]:
    """Absolute paths of directories that are there, by their real names."""
    return tuple(_directory(name, word) for word in words(name))


def _directory(name: str, word: str) -> Path:
    if not word.startswith("/") or not Path(word).is_dir():
        raise ImproperlyConfigured(f"{name} must list absolute paths of directories that are there, not {word!r}.")
    return Path(word).resolve()


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int


def account(name: str, usual: str) -> Account | None:
    """Another account that this one may become, which is for root alone; None to stay what we are."""
    wanted = text(name) or (usual if os.geteuid() == 0 else "")
    if not wanted:
        return None
    try:
        found = pwd.getpwnam(wanted)
    except KeyError as error:
        raise ImproperlyConfigured(f"{name} must name an account of this machine; {wanted!r} is none.") from error
    if found.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise ImproperlyConfigured(f"{name} needs Gatehouse to run as root; leave it out, or name this account.")
    return Account(wanted, found.pw_uid, found.pw_gid)


def socket(path: Path) -> Path:
    """`path`; where that is too long for a socket, its name in a short directory that a link beside it leads to."""
    if len(os.fsencode(path)) <= LONGEST_SOCKET:
        return path
    link = path.parent / "run"
    if not link.is_dir():
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.unlink(missing_ok=True)  # the system may have cleared its temporary files
        with suppress(FileExistsError):
            link.symlink_to(tempfile.mkdtemp(prefix="gatehouse-"))
    return link.resolve() / path.name


def database(name: str, sqlite_path: Path) -> dict[str, object]:
    """The one database: PostgreSQL or SQLite by URL, SQLite in the data directory when none is given."""
    parts = urlsplit(url(name, {"postgres", "postgresql", "sqlite"}))
    if not parts.scheme:
        return sqlite(sqlite_path)
    if parts.scheme == "sqlite":
        return sqlite(Path(unquote(parts.path)))
    try:
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} has a port that is not a number.") from error
    if not parts.path.strip("/"):
        raise ImproperlyConfigured(f"{name} must name a database after the last slash.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(port or ""),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 2,
            # Where packets vanish nobody says no: without these, a query waits for the kernel's quarter of an hour.
            "tcp_user_timeout": 3000,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "options": "-c statement_timeout=10000 -c lock_timeout=2000 -c idle_in_transaction_session_timeout=30000",
            # A worker for runs asks from nine threads at once.
            "pool": {"min_size": 1, "max_size": 12, "timeout": 2},
            # For the statements of `common/fastsql/prepared_statements.py`; all others have their values in their text.
            "prepare_threshold": 5,
            **dict(parse_qsl(parts.query)),
        },
    }


def sqlite(path: Path) -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "timeout": 20,
            # Deferred transactions of several processes collide when they upgrade to a write: ask for the lock first.
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
