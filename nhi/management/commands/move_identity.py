"""`manage.py move_identity KIND/NAME suspend`: change the state of an identity; includes the kill switch."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from common.errors import InvalidInput
from nhi import actors
from nhi.choices import StopCause
from nhi.identities import lifecycle
from nhi.identities.lifecycle import StopResult
from nhi.management import lookups


class Command(GatehouseCommand):
    help = "Activate, deactivate, suspend (stops everything it does), deprecate or archive an identity."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("identity", metavar="KIND/NAME")
        parser.add_argument("verb", choices=("activate", "deactivate", "suspend", "deprecate", "archive"))
        parser.add_argument("--reason", required=True)
        parser.add_argument("--cause", choices=sorted(StopCause), default="", help="Of suspend: the reason as a code.")
        parser.add_argument(
            "--revoke-credentials", action="store_true", help="Of activate: revoke its live credentials first."
        )

    def run(self, **options: Any) -> dict[str, Any]:
        identity = lookups.find_identity(options["identity"])
        verb = getattr(lifecycle, options["verb"])
        result = verb(actor=actors.terminal(), identity=identity, reason=options["reason"], **_options_of_verb(options))
        if isinstance(result, StopResult):
            summary = {"id": result.identity.pk, "state": result.identity.state}
            return {**summary, "stopped": result.stopped, "pending": result.pending}
        return {"id": result.pk, "state": result.state}


def _options_of_verb(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are specific to the verb. Refuse them with another verb."""
    verb, cause, revokes = options["verb"], options["cause"], options["revoke_credentials"]
    if cause and verb != "suspend":
        raise InvalidInput.for_field("cause", "Only suspend takes a cause.")
    if revokes and verb != "activate":
        raise InvalidInput.for_field("revoke_credentials", "Only activate takes --revoke-credentials.")
    return {**({"cause": cause} if cause else {}), **({"revoke_credentials": True} if revokes else {})}
