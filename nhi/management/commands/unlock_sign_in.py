"""`manage.py unlock_sign_in USERNAME`: clear the locks of a name."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from nhi import actors
from nhi.people import sign_in


class Command(GatehouseCommand):
    help = "Forget the failed sign-ins of a name, wherever they came from."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def run(self, **options: Any) -> dict[str, Any]:
        username: str = options["username"]
        return {"username": username, "counters": sign_in.unlock(actor=actors.terminal(), username=username)}
