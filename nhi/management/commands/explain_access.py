"""`manage.py explain_access KIND/NAME KIND/NAME`: explain why the first may or may not call the second."""

import sys
from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from nhi import actors
from nhi.authorization import explain
from nhi.management import lookups


class Command(GatehouseCommand):
    help = "Walk every check of a call that nobody makes. Exit 1 when it would be refused."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("caller", metavar="KIND/NAME")
        parser.add_argument("target", metavar="KIND/NAME")

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if not self.allowed:
            sys.exit(1)

    def run(self, **options: Any) -> dict[str, Any]:
        caller, target = lookups.find_identity(options["caller"]), lookups.find_identity(options["target"])
        explanation = explain.explain(actor=actors.terminal(), caller_id=caller.pk, target_id=target.pk)
        self.allowed = explanation.decision.allowed
        return {
            "decision": explanation.decision.verdict,
            "reason": explanation.decision.reason,
            "message": explanation.decision.message,
            "checks": [f"{check.outcome}: {check.name}: {check.message}" for check in explanation.checks],
            "would_pass": list(explanation.would_pass),
        }
