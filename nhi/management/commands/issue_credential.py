"""`manage.py issue_credential KIND/NAME`: issue a credential of an identity. The token is shown once."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from nhi import actors
from nhi.credentials import credentials
from nhi.management import lookups


class Command(GatehouseCommand):
    help = "Issue a credential. Two may be live; --replace revokes those that are."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("identity", metavar="KIND/NAME")
        parser.add_argument("--replace", action="store_true", help="Revoke the live ones in the same commit.")
        parser.add_argument("--days", type=int, default=credentials.DEFAULT_DAYS)

    def run(self, **options: Any) -> dict[str, Any]:
        identity = lookups.find_identity(options["identity"])
        issue = credentials.replace if options["replace"] else credentials.issue
        issued = issue(actor=actors.terminal(), holder=identity, days=options["days"])
        credential = issued.credential
        return {
            "id": credential.pk,
            "public_id": credential.public_id,
            "token": issued.token,
            "expires_at": credential.expires_at,
        }
