"""The secrets and key rings of the installation: loads or creates them, and derives a key for each use of a secret.

Production sets them in the environment and refuses to start without them. The embedded default generates them once and
stores them beside its database, so that every command with the same GATEHOUSE_DATA uses the same keys.
"""

import base64
import binascii
import json
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.core.exceptions import ImproperlyConfigured

MIN_SECRET_LENGTH = 32
KEY_ENTRY = re.compile(r"([A-Za-z0-9-]{1,16}):([A-Za-z0-9_-]{43}=?)")


@dataclass(frozen=True, repr=False)
class KeyRing:
    """Keys by id. The first key encrypts and signs; the others only read older data."""

    keys: dict[str, bytes] = field(default_factory=dict)

    @property
    def primary_key(self) -> tuple[str, bytes]:
        return next(iter(self.keys.items()))

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self.keys)})"


@dataclass(frozen=True, repr=False)
class InstallationKeys:
    """The values of SECRET_KEY, TOKEN_PEPPER, FIELD_KEYS and SIGNING_KEYS as text. Key rings are not parsed."""

    secret_key: str
    token_pepper: str
    field_keys: str
    signing_keys: str


def load(environ: dict[str, str], data: Path, *, required: bool) -> InstallationKeys:
    """Read the keys from the environment, else from the data directory. With `required`, only from the environment."""
    names = ("SECRET_KEY", "TOKEN_PEPPER", "FIELD_KEYS", "SIGNING_KEYS")
    environment_values = {name: environ.get(name, "").strip() for name in names}
    for name in names[:2]:
        if environment_values[name] and len(environment_values[name]) < MIN_SECRET_LENGTH:
            raise ImproperlyConfigured(f"{name} must have at least {MIN_SECRET_LENGTH} characters.")
    for name in names[2:]:
        parse_key_ring(name, environment_values[name])
    missing = [name for name in names[:3] if not environment_values[name]]
    if missing and required:
        raise ImproperlyConfigured(f"{' and '.join(missing)} must be set when DATABASE_URL is set and DEBUG is off.")
    file_values = _read_or_create_file(data / "keys.json") if missing else {}
    values = {name: environment_values[name] or file_values.get(name, "") for name in names}
    return InstallationKeys(values["SECRET_KEY"], values["TOKEN_PEPPER"], values["FIELD_KEYS"], values["SIGNING_KEYS"])


def parse_key_ring(name: str, value: str) -> KeyRing:
    """Parse a comma-separated list of `<id>:<base64url of 32 bytes>`."""
    keys: dict[str, bytes] = {}
    for item in filter(None, (part.strip() for part in value.split(","))):
        match = KEY_ENTRY.fullmatch(item)
        try:
            key = base64.urlsafe_b64decode(match[2].rstrip("=") + "=") if match else b""
        except binascii.Error:
            key = b""
        if match is None or len(key) != 32 or match[1] in keys:
            raise ImproperlyConfigured(f"{name} must be a list of <id>:<base64url of 32 bytes> with different ids.")
        keys[match[1]] = key
    return KeyRing(keys)


def derive(secret: str, label: str) -> bytes:
    """Derive a separate key for each use, so that a signature made for one use is not valid for another."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"gatehouse/" + label.encode()).derive(secret.encode())


def _read_or_create_file(path: Path) -> dict[str, str]:
    if not path.exists():
        _create_file(path)
    values: dict[str, str] = json.loads(path.read_text())
    return values


def _create_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    values = {
        "SECRET_KEY": secrets.token_urlsafe(48),
        "TOKEN_PEPPER": secrets.token_urlsafe(48),
        "FIELD_KEYS": f"f1:{_random_key()}",
        "SIGNING_KEYS": f"s1:{_random_key()}",
    }
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}")
    temporary_path.touch(mode=0o600)
    temporary_path.write_text(json.dumps(values, indent=2) + "\n")
    try:
        # A link, not a rename: if two commands start at once, the second must use the keys of the first.
        os.link(temporary_path, path)
    except FileExistsError:
        pass
    finally:
        temporary_path.unlink()


def _random_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
