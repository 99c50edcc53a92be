"""Keys by which callers share the queue, before the database is read.

A short-lived token is signed by Gatehouse, so the identity in it is authentic. A credential's public id is no secret:
if it were the key, anybody could fill the share of another identity. A credential gets the key of its identity once
this process has accepted it. Until then it shares a key with the other unknown credentials of its source.
"""

from collections.abc import Hashable
from uuid import UUID

from nhi.credentials import tokens
from nhi.credentials.tokens import ParsedCredentialToken

#: Number of credentials that are remembered. The oldest are removed first.
MAX_KNOWN_CREDENTIALS = 20_000


class CallerKeys:
    def __init__(self) -> None:
        self._identities: dict[bytes, UUID] = {}

    def key(self, token: tokens.ParsedBearerToken, source: str) -> Hashable:
        if not isinstance(token, ParsedCredentialToken):
            return token.identity_id
        identity_id = self._identities.get(token.digest)
        return ("unknown", source) if identity_id is None else identity_id

    def remember(self, token: tokens.ParsedBearerToken, identity_id: UUID) -> None:
        """Remember that this credential was accepted for this identity."""
        if not isinstance(token, ParsedCredentialToken) or token.digest in self._identities:
            return
        while len(self._identities) >= MAX_KNOWN_CREDENTIALS:
            self._identities.pop(next(iter(self._identities)), None)
        self._identities[token.digest] = identity_id


caller_keys = CallerKeys()
