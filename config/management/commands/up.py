"""`manage.py up`: the whole house on this machine, until Ctrl-C."""

import io
import json
import logging
import os
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command, get_commands
from django.db import connection

from common.egress.addresses import is_loopback_host
from common.process import file_lock
from config.launcher import launch, private
from config.launcher.listeners import PortTaken

IN_THE_CLEAR = (
    "Warning: passwords and tokens sent to {bind} cross the network unencrypted. Put a proxy that ends TLS in front of "
    "Gatehouse, and set PUBLIC_URL to its https:// address."
)


class Command(BaseCommand):
    help = "Migrate, seed the demo, and run web, workers, beat and an own broker under one launcher."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-demo", action="store_true", help="Start with an empty house.")
        parser.add_argument("--port", metavar="N", help="Listen here; the same as PORT in the environment.")
        parser.add_argument(
            "--bind", default="127.0.0.1", metavar="ADDRESS", help="Listen on this address (%(default)s)."
        )
        parser.add_argument(
            "--reload", action="store_true", help="Run one web process and restart it when code changes (developers)."
        )

    def handle(self, *, no_demo: bool, port: str | None, bind: str, reload: bool, **_: Any) -> None:
        if port is not None and port != os.environ.get("PORT"):
            # The environment is the one truth for settings: say it there and begin again.
            os.environ["PORT"] = port
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
        try:
            with file_lock.hold_file_lock(settings.DATA / "up.lock"):
                self.prepare(demo=not no_demo)
                if sends_in_the_clear(bind):
                    self.say(IN_THE_CLEAR.format(bind=bind))
                tck = self.tck() if settings.TCK_AGENT else ""
                launch.run(
                    address=bind, say=self.say, greet=lambda: self.greet(demo=not no_demo), tck=tck, reload=reload
                )
        except file_lock.FileLockedError as other:
            raise CommandError(
                f"Gatehouse already runs on {settings.DATA} (process {other.holder}). Stop that one first, or give "
                "this one a directory of its own with GATEHOUSE_DATA."
            ) from None
        except PortTaken as problem:
            raise CommandError(str(problem)) from None

    def prepare(self, *, demo: bool) -> None:
        # With LOG_SQL=1 the statements of the processes are logged in their files. Those of migrations would fill the
        # terminal.
        logging.getLogger("django.db.backends").setLevel(logging.INFO)
        self.say(f"Gatehouse {settings.VERSION}, data in {settings.DATA}")
        embedded = connection.vendor == "sqlite"
        private.tighten(settings.DATA, Path(connection.settings_dict["NAME"]) if embedded else None)
        call_command("migrate", verbosity=0, interactive=False)
        if demo and "seed_demo" in get_commands():
            # At once, not with the greeting: first passwords are shown once and stored nowhere.
            call_command("seed_demo", stdout=self.stdout)

    def tck(self) -> str:
        """The token with which the test kit's agent does its tasks, new at each start."""
        said = io.StringIO()
        call_command("seed_tck", stdout=said)
        return said.getvalue().strip()

    def greet(self, *, demo: bool) -> None:
        self.say(f"Ready: {settings.PUBLIC_URL}/admin/")
        if demo:
            credential = io.StringIO()
            call_command("issue_credential", "agent/deploy-bot", replace=True, json=True, stdout=credential)
            token = json.loads(credential.getvalue())["token"]
            self.say("Sign in as mara, the security admin; the passwords are shown at the first start only.")
            self.say(f"Token of agent/deploy-bot, new at each start: {token}")
            self.say(f'Try: curl -H "Authorization: Bearer {token}" {settings.PUBLIC_URL}/api/nhi/me')
            self.greet_callers(token)
        else:
            data = (
                f"GATEHOUSE_DATA={shlex.quote(os.environ['GATEHOUSE_DATA'])} " if "GATEHOUSE_DATA" in os.environ else ""
            )
            self.say(f"Make the first person: {data}.venv/bin/python manage.py create_person NAME --superuser --json")
        self.say(f"Logs in {settings.DATA / 'logs'}. Ctrl-C stops everything.")

    def greet_callers(self, token: str) -> None:
        """How the demo's agent calls a tool: with curl, and from an MCP client."""
        tool = self.seed("seed_gateway_demo", "The demo's server")
        if tool is None:
            return
        agent = self.seed("seed_runs_demo", "The demo's agents")
        reader = self.seed("seed_tasks_demo", "The demo's tasks")
        if tool:
            call = curl(token, {"parameters": {"title": "Water the plants"}})
            self.say(f"Call a tool: {call}/mcp/tools/{tool}/call")
        if agent:
            call = curl(token, {"input": "It rained. The river rose. Nobody was hurt."})
            self.say(f"Run an agent: {call}/supervisor/agents/{agent}/execute")
        if reader:
            task = {"target_agent_id": reader, "task_type": "summarise", "input": {"input": "It rained. The sun came."}}
            self.say(f"Send a task: {curl(token, task)}/a2a/tasks")
        if settings.EXECUTABLE_ALLOWLIST and not (tool and agent):
            self.say(
                "The demo's server or agents may not run: the file that EXECUTABLE_ALLOWLIST names leaves them out."
            )
        headers = {"Authorization": f"Bearer {token}"}
        client = {
            "mcpServers": {"gatehouse": {"type": "http", "url": f"{settings.PUBLIC_URL}/mcp", "headers": headers}}
        }
        self.say(f"MCP client: {json.dumps(client)}")

    def seed(self, command: str, what: str) -> str | None:
        """What it says, or None. In a process of its own: what calls tools keeps threads, and the launcher has none."""
        environ = {**os.environ, "GATEHOUSE_DATA": str(settings.DATA)}
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "manage.py", command],
            cwd=settings.BASE_DIR, env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            log = settings.DATA / "logs" / f"{command.replace('_', '-')}.log"
            log.write_text(done.stdout + done.stderr)
            self.say(f"{what} could not be added; the rest of the demo is there. Why: {log}")
            return None
        return done.stdout.strip()

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def sends_in_the_clear(bind: str) -> bool:
    """Whether others than this machine reach the address, and no proxy is said to end TLS before it."""
    return not is_loopback_host(bind) and not settings.PUBLIC_URL.startswith("https://")


def curl(token: str, body: object) -> str:
    """The beginning of a command that posts this as the bearer; the rest of its address follows."""
    said = shlex.quote(json.dumps(body))
    headers = f'-H "Authorization: Bearer {token}" -H "Content-Type: application/json"'
    return f"curl {headers} -d {said} {settings.PUBLIC_URL}/api/nhi"
