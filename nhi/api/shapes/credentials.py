"""Credentials: what is known of them later, and the token that is shown once."""

from common.api.fields import Identifier, Moment, Text, Texts, Whole, Word
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples
from nhi.choices import GrantState
from nhi.credentials.credentials import DEFAULT_DAYS, MAX_DAYS, MAX_OVERLAP_SECONDS


class CredentialShape(Shape):
    id = Identifier()
    public_id = Text()
    state = Word(choices=GrantState.choices)
    created_at = Moment()
    created_by = Text(source="created_by_name")
    expires_at = Moment()
    last_used_at = Moment(allow_null=True, help_text="At most 60 seconds behind.")
    last_used_from = Text()
    allowed_networks = Texts()
    revoked_at = Moment(allow_null=True)

    example = {
        "id": examples.CREDENTIAL,
        "public_id": examples.PUBLIC_ID,
        "state": "live",
        "created_at": examples.NOW,
        "created_by": "mara",
        "expires_at": examples.LATER,
        "last_used_at": None,
        "last_used_from": "",
        "allowed_networks": [],
        "revoked_at": None,
    }


class IssuedShape(Shape):
    id = Identifier(source="credential.id")
    public_id = Text(source="credential.public_id")
    token = Text(help_text="Shown here and never again.")
    expires_at = Moment(source="credential.expires_at")
    allowed_networks = Texts(source="credential.allowed_networks")
    state = Word(choices=GrantState.choices, source="credential.state")

    example = {
        "id": examples.CREDENTIAL,
        "public_id": examples.PUBLIC_ID,
        "token": examples.TOKEN,
        "expires_at": examples.LATER,
        "allowed_networks": [],
        "state": "live",
    }


class PreviousShape(Shape):
    id = Identifier()
    expires_at = Moment(help_text="When the old one stops working.")


class RotatedShape(IssuedShape):
    previous = PreviousShape()

    example = {**IssuedShape.example, "previous": {"id": examples.OLDER_CREDENTIAL, "expires_at": examples.NOW}}


class NewCredential(Input):
    expires_in_days = Whole(required=False, default=DEFAULT_DAYS, help_text=f"1 to {MAX_DAYS}.")
    allowed_networks = Texts(required=False, help_text="Source networks like 10.0.0.0/8; none for any.")

    example = {"expires_in_days": 90, "allowed_networks": ["10.0.0.0/8"]}


class Rotation(Input):
    overlap_seconds = Whole(
        required=False, default=86400, help_text=f"How long the old one works on, 0 to {MAX_OVERLAP_SECONDS}."
    )

    example = {"overlap_seconds": 3600}


class StateFilter(Filters):
    state = Word(choices=GrantState.choices, required=False)


class RevokedShape(Shape):
    id = Identifier()
    state = Word(choices=["revoked"])
    revoked_at = Moment()

    example = {"id": examples.GRANT, "state": "revoked", "revoked_at": examples.NOW}
