"""Whose turn a call takes, as far as that is known before the database is asked.

A short-lived token is signed here, so the identity in it is true. A credential's public id is no secret: whoever keyed
by it could fill the share of another identity. A credential counts as its identity's once this process has seen it
pass; until then it shares a turn with the other unknown credentials of its source.
"""

from collections.abc import Hashable
from uuid import UUID

from nhi.credentials import tokens
from nhi.credentials.tokens import ParsedCredentialToken

#: Credentials that are remembered; the oldest are forgotten first.
MAX_KNOWN_CREDENTIALS = 20_000


class CallerKeys:
    def __init__(self) -> None:
        self._identities: dict[bytes, UUID] = {}

    def key(self, shown: tokens.ParsedBearerToken, source: str) -> Hashable:
        if not isinstance(shown, ParsedCredentialToken):
            return shown.identity_id
        known = self._identities.get(shown.digest)
        return ("unknown", source) if known is None else known

    def remember(self, shown: tokens.ParsedBearerToken, identity_id: UUID) -> None:
        """This credential has passed as this identity's."""
        if not isinstance(shown, ParsedCredentialToken) or shown.digest in self._identities:
            return
        while len(self._identities) >= MAX_KNOWN_CREDENTIALS:
            self._identities.pop(next(iter(self._identities)), None)
        self._identities[shown.digest] = identity_id


caller_keys = CallerKeys()
