"""`manage.py set_console_roles service_account/NAME --role ROLE`: give a service account the API rights of a role."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from nhi import actors
from nhi.access import rights
from nhi.identities import identities
from nhi.management import lookups


class Command(GatehouseCommand):
    help = "Set the console roles of a service account; none takes them away. Its live credentials are revoked."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("identity", metavar="KIND/NAME")
        parser.add_argument("--role", action="append", choices=sorted(rights.CONSOLE_ROLES), default=[])

    def run(self, **options: Any) -> dict[str, Any]:
        identity = lookups.find_identity(options["identity"])
        identities.set_console_roles(actor=actors.terminal(), identity=identity, roles=options["role"])
        return {"id": identity.pk, "console_roles": sorted(options["role"])}
