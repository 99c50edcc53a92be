"""`manage.py issue_user_token USERNAME`: issue a personal token, which is shown once."""

from argparse import ArgumentParser
from typing import Any

from common.commands import GatehouseCommand
from nhi import actors
from nhi.credentials import credentials
from nhi.management import lookups


class Command(GatehouseCommand):
    help = (
        "Issue a personal token, which can do what the person can, credentials of identities included. "
        "It never issues or rotates personal tokens."
    )

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--days", type=int, default=credentials.DEFAULT_DAYS)

    def run(self, **options: Any) -> dict[str, Any]:
        user = lookups.find_person(options["username"])
        issued = credentials.issue(actor=actors.terminal(), holder=user, days=options["days"], issues_credentials=True)
        return {"token": issued.token, "expires_at": issued.credential.expires_at}
