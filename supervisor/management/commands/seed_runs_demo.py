"""`manage.py seed_runs_demo`: the demo's agents, a run of each, and a schedule; a second run changes nothing."""

from typing import Any

from django.core.management import BaseCommand

from supervisor import demo


class Command(BaseCommand):
    help = "Seed the supervisor's part of the demo. The house must be up: its worker runs the agents."

    def handle(self, *_args: Any, **_options: Any) -> None:
        agent = demo.seed()
        self.stdout.write(str(agent.pk) if agent else "")
