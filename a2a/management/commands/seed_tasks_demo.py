"""`manage.py seed_tasks_demo`: the demo's tasks; a second run changes nothing. Prints who may be sent some."""

from typing import Any

from django.core.management import BaseCommand

from a2a import demo


class Command(BaseCommand):
    help = "Seed the part of tasks in the demo."

    def handle(self, *_args: Any, **_options: Any) -> None:
        demo.seed()
        reader = demo.reader()
        self.stdout.write(str(reader.pk) if reader else "")
