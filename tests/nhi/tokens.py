"""Tokens as those who have none would make them, and why one that is shown is refused."""

import zlib
from uuid import UUID

from common import context
from common.db import clock
from common.ids import uuid7
from nhi.actors import Actor
from nhi.authorization import authentication
from nhi.credentials import run_tokens, tokens
from nhi.credentials.run_tokens import RunTokenRequest
from nhi.decisions.delegation import DelegationChain
from nhi.models import Identity

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def shown(token: str, source: str = "203.0.113.9") -> str:
    """The reason for which the token is refused now, or an empty text."""
    try:
        with context.bind_context(context.RequestContext(uuid7(), source)):
            authentication.authenticate(token)
    except authentication.Unauthenticated as refused:
        return refused.reason
    return ""


def of_run(
    *, identity: Identity, execution_id: UUID, seconds: float, actor: Actor, chain: DelegationChain | None = None
) -> str:
    """As its worker gets it."""
    opening = RunTokenRequest(identity, execution_id, seconds, chain)
    return run_tokens.issue_tokens([opening], actor=actor, at=clock.database_now())[execution_id]


def crc(body: str) -> str:
    value, text = zlib.crc32(body.encode()), ""
    while value:
        value, digit = divmod(value, 62)
        text = DIGITS[digit] + text
    return text.rjust(6, "0")


def forged(token: str) -> str:
    """Well formed, and nobody's."""
    prefix, kind, public, secret = token.split("_")
    body = f"{prefix}_{kind}_{'z' * len(public)}_{secret[:-6]}"
    assert tokens.parse(body + crc(body)) is not None
    return body + crc(body)
