"""`manage.py revoke_credential PUBLIC_ID`: revoke a credential, for example after a leak."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from common.errors import InvalidInput
from nhi import actors
from nhi.credentials import credentials
from nhi.models import Credential


class Command(GatehouseCommand):
    help = "Revoke a credential by its public id, the third part of the token."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("public_id")
        parser.add_argument("--reason", required=True)

    def run(self, **options: Any) -> dict[str, Any]:
        credential = (
            Credential.objects.select_related("identity", "user").filter(public_id=options["public_id"]).first()
        )
        if credential is None:
            raise InvalidInput.for_field("public_id", f"There is no credential {options['public_id']!r}.")
        revoked = credentials.revoke(actor=actors.terminal(), credential=credential, reason=options["reason"])
        return {"id": revoked.pk, "state": revoked.state, "revoked_at": revoked.revoked_at}
