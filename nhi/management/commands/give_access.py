"""`manage.py give_access agent/NAME tool/NAME`: give a grant from a terminal."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from common.commands import GatehouseCommand
from common.db import clock
from common.errors import InvalidInput
from nhi import actors
from nhi.access import grants
from nhi.choices import Kind, PermissionType
from nhi.management import lookups


class Command(GatehouseCommand):
    help = "Let an agent call a tool, or an identity call another."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("caller", metavar="KIND/NAME")
        parser.add_argument("target", metavar="KIND/NAME")
        parser.add_argument("--days", type=int, help="End after so many days; without it the grant does not end.")
        parser.add_argument("--reason", required=True)

    def run(self, **options: Any) -> dict[str, Any]:
        caller, target = lookups.find_identity(options["caller"]), lookups.find_identity(options["target"])
        terms = {"actor": actors.terminal(), "reason": options["reason"], "expires_at": _ends(options["days"])}
        if target.kind == Kind.TOOL:
            grant: Any = grants.give_tool(agent=caller, tool=target, **terms)
        else:
            grant = grants.give_nhi(source=caller, target=target, permission_type=PermissionType.CALL, **terms)
        return {"id": grant.pk, "state": grant.state, "expires_at": grant.expires_at}


def _ends(days: int | None) -> Any:
    if days is None:
        return None
    if not 1 <= days <= 3650:
        raise InvalidInput.for_field("days", "Use a whole number of days from 1 to 3650.")
    return clock.database_now() + timedelta(days=days)
