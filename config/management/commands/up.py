"""`manage.py up`: the whole house on this machine, until Ctrl-C."""

import io
import json
import os
import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command, get_commands
from django.db import connection

from config.launcher import launch, lock, private


class Command(BaseCommand):
    help = "Migrate, seed the demo, and run web, workers, beat and an own broker under one launcher."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-demo", action="store_true", help="Start with an empty house.")
        parser.add_argument("--port", metavar="N", help="Listen here; the same as PORT in the environment.")
        parser.add_argument(
            "--bind", default="127.0.0.1", metavar="ADDRESS", help="Listen on this address (%(default)s)."
        )

    def handle(self, *, no_demo: bool, port: str | None, bind: str, **_: Any) -> None:
        if port is not None and port != os.environ.get("PORT"):
            # The environment is the one truth for settings: say it there and begin again.
            os.environ["PORT"] = port
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
        try:
            with lock.held(settings.DATA):
                self.prepare(demo=not no_demo)
                launch.run(address=bind, say=self.say, greet=lambda: self.greet(demo=not no_demo))
        except (lock.AlreadyRunning, launch.PortTaken) as problem:
            raise CommandError(str(problem)) from None

    def prepare(self, *, demo: bool) -> None:
        self.say(f"Gatehouse {settings.VERSION}, data in {settings.DATA}")
        embedded = connection.vendor == "sqlite"
        private.tighten(settings.DATA, Path(connection.settings_dict["NAME"]) if embedded else None)
        call_command("migrate", verbosity=0, interactive=False)
        if demo and "seed_demo" in get_commands():
            # At once, not with the greeting: first passwords are shown once and stored nowhere.
            call_command("seed_demo", stdout=self.stdout)

    def greet(self, *, demo: bool) -> None:
        self.say(f"Ready: {settings.PUBLIC_URL}/admin/")
        if demo:
            credential = io.StringIO()
            call_command("issue_credential", "agent/deploy-bot", replace=True, json=True, stdout=credential)
            token = json.loads(credential.getvalue())["token"]
            self.say("Sign in as admin; the passwords are shown at the first start only.")
            self.say(f"Token of agent/deploy-bot, new at each start: {token}")
            self.say(f'Try: curl -H "Authorization: Bearer {token}" {settings.PUBLIC_URL}/api/nhi/me')
        else:
            data = (
                f"GATEHOUSE_DATA={shlex.quote(os.environ['GATEHOUSE_DATA'])} " if "GATEHOUSE_DATA" in os.environ else ""
            )
            self.say(f"Make the first person: {data}.venv/bin/python manage.py create_person NAME --superuser --json")
        self.say(f"Logs in {settings.DATA / 'logs'}. Ctrl-C stops everything.")

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
