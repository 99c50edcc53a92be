"""`manage.py add_identity KIND/NAME --owner USERNAME`: register an agent, service account or tool."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from common.errors import InvalidInput
from nhi import actors
from nhi.choices import Kind
from nhi.identities import identities
from nhi.management import lookups


class Command(GatehouseCommand):
    help = "Register an identity, active unless told otherwise. A tool's name is <server>__<tool>."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("identity", metavar="KIND/NAME")
        parser.add_argument("--owner", required=True, metavar="USERNAME")
        parser.add_argument("--purpose", default="")
        parser.add_argument("--team", default="")
        parser.add_argument("--environment", default="")
        parser.add_argument("--inactive", action="store_true", help="Register it without activating it.")

    def run(self, **options: Any) -> dict[str, Any]:
        kind, _, name = options["identity"].partition("/")
        if kind not in Kind.values:
            raise InvalidInput.for_field("identity", f"Write KIND/NAME with KIND one of {', '.join(Kind.values)}.")
        fields = {field: options[field] for field in ("purpose", "team", "environment")}
        identity = identities.create(
            actor=actors.terminal(),
            kind=Kind(kind),
            name=name,
            owner=lookups.find_person(options["owner"]),
            activate=not options["inactive"],
            **fields,
        )
        return {
            "id": identity.pk,
            "kind": identity.kind,
            "name": identity.name,
            "state": identity.state,
            "capability": identity.capability,
        }
