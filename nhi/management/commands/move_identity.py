"""`manage.py move_identity KIND/NAME suspend`: the lifecycle from a terminal, the kill switch included."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from nhi import actors, command_line, lifecycle
from nhi.lifecycle import Stopped


class Command(GatehouseCommand):
    help = "Activate, deactivate, suspend (stops everything it does), deprecate or archive an identity."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("identity", metavar="KIND/NAME")
        parser.add_argument("verb", choices=("activate", "deactivate", "suspend", "deprecate", "archive"))
        parser.add_argument("--reason", required=True)

    def run(self, **options: Any) -> dict[str, Any]:
        identity = command_line.identity(options["identity"])
        verb = getattr(lifecycle, options["verb"])
        moved = verb(actor=actors.terminal(), identity=identity, reason=options["reason"])
        if isinstance(moved, Stopped):
            done = {"id": moved.identity.pk, "state": moved.identity.state}
            return {**done, "stopped": moved.stopped, "pending": moved.pending}
        return {"id": moved.pk, "state": moved.state}
