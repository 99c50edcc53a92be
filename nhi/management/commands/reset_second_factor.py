"""`manage.py reset_second_factor USERNAME`: for a lost phone, when nobody can reset the factors in the console."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from nhi import actors
from nhi.management import lookups
from nhi.people import people


class Command(GatehouseCommand):
    help = "Remove a person's second factors and recovery codes. Be sure that it is them who asks."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--reason", required=True)

    def run(self, **options: Any) -> dict[str, Any]:
        user = lookups.find_person(options["username"])
        removed = people.reset_second_factor(actor=actors.terminal(), user=user, reason=options["reason"])
        return {"username": user.username, "factors": removed}
