"""Credentials of identities."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation
from common.api.shapes import Reason
from nhi.api.identities import OfIdentity
from nhi.api.shapes.credentials import (
    CredentialShape,
    IssuedShape,
    NewCredential,
    RevokedShape,
    RotatedShape,
    Rotation,
    StateFilter,
)
from nhi.api.views import ApiView
from nhi.credentials import credentials
from nhi.credentials.credentials import IssuedCredential
from nhi.models import Credential


class Credentials(OfIdentity):
    @listing(gives=CredentialShape, filters=StateFilter)
    def get(self, asked: dict[str, Any]) -> Any:
        """List the credentials of an identity

        Never the secrets. An identity sees its own."""
        rows = Credential.objects.visible_to(self.actor).filter(identity=self.identity)
        return rows.in_state(asked["state"]) if asked else rows

    @operation(takes=NewCredential, gives=IssuedShape, status=201, refusals=(409,), proof=True)
    def post(self, given: dict[str, Any]) -> IssuedCredential:
        """Issue a credential

        The token is in this answer and nowhere else. At most two are live at a time: a third is a 409. A session of the
        console needs a fresh proof of who its person is (403 `proof_required`), and a personal token the right to
        issue credentials (403 `personal_token`)."""
        return credentials.issue(
            actor=self.actor,
            holder=self.identity,
            days=given["expires_in_days"],
            allowed_networks=given.get("allowed_networks"),
        )


class OfCredential(ApiView):
    credential: Credential

    def find(self, **path: UUID) -> None:
        self.credential = self.visible(Credential.objects.select_related("identity", "user"), path["credential_id"])


class Rotate(OfCredential):
    @operation(takes=Rotation, gives=RotatedShape, refusals=(409,), proof=True)
    def post(self, given: dict[str, Any]) -> IssuedCredential:
        """Rotate a credential

        Makes a successor that lives as long as this one did; both work for `overlap_seconds`, then only the new one.
        While two are live: 409. Who may is as for issuing; personal tokens are rotated by a session alone, and end at
        most 366 days after the first of them was made."""
        return credentials.rotate(actor=self.actor, credential=self.credential, overlap=given["overlap_seconds"])


class Revoke(OfCredential):
    @operation(takes=Reason, gives=RevokedShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Credential:
        """Revoke a credential

        At once, together with the short-lived tokens that were made from it."""
        return credentials.revoke(actor=self.actor, credential=self.credential, reason=given["reason"])
