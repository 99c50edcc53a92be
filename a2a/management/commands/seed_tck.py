"""`manage.py seed_tck`: the agent of the protocol's test kit. Prints its token; `up` does this with TCK_AGENT=1."""

from typing import Any

from django.core.management import BaseCommand

from a2a import tck


class Command(BaseCommand):
    help = "Seed the agent that the A2A protocol's test kit talks to, and print its token."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(tck.seed())
