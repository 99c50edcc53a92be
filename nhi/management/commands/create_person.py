"""`manage.py create_person USERNAME`: add a person who can sign in. The password is shown once."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from common.commands import GatehouseCommand
from nhi import actors
from nhi.access import rights
from nhi.people import people


class Command(GatehouseCommand):
    help = "Add a person. Without a role they have no console; --superuser gives every right."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--role", action="append", choices=sorted(rights.CONSOLE_ROLES), default=[])
        parser.add_argument("--superuser", action="store_true")

    def run(self, **options: Any) -> dict[str, Any]:
        new_person = people.create(
            actor=actors.terminal(),
            username=options["username"],
            roles=options["role"],
            superuser=options["superuser"],
            # If second factors are required, a password that a terminal showed must be changed too.
            must_change_password=settings.REQUIRE_MFA,
        )
        return {"id": new_person.user.pk, "username": new_person.user.username, "password": new_person.password}
