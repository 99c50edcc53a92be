"""Seals, opens and fills in the secrets of a server.

`${NAME}` refers to a secret of the same server, never to a variable of this process's environment.
"""

import re
from collections.abc import Iterable, Mapping

from common import crypto
from mcp.models import Server, ServerSecret

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
REFERENCE = re.compile(r"\$\{([^}]*)\}")


def sealing_place(secret: ServerSecret) -> str:
    """Return the sealing context, which binds a sealed value to its own row."""
    return f"mcp_server_secret/{secret.pk}/{secret.server_id}/{secret.name}"


def seal_secret(secret: ServerSecret, value: str) -> None:
    secret.sealed = crypto.seal(value, place=sealing_place(secret))


def open_secrets(server: Server) -> dict[str, str]:
    """Return the decrypted secrets of a server by name. Never write them to a row, a log line or a page."""
    return {secret.name: crypto.unseal(secret.sealed, place=sealing_place(secret)) for secret in server.secrets.all()}


def find_references(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in REFERENCE.findall(text)}


def fill_references(text: str, secret_values: Mapping[str, str]) -> str:
    """Replace each `${NAME}` in `text`. An unknown name raises LookupError."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in secret_values:
            raise LookupError(f"${{{match[1]}}} names no secret of this server.")
        return secret_values[match[1]]

    return REFERENCE.sub(value, text)
