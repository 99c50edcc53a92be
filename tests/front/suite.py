"""`make conformance`: the official suite through the gateway, and which of its scenarios must pass by now.

    python -m tests.front.suite

prints the table. Exit 1 if a scenario does otherwise than is written here.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from yarl import URL

from tests.mcp.world import Wanted
from tests.nhi.load.webs import Webs, running
from tests.peers.conformance import Report, check
from tests.services import valkey
from tests.services.house import ROOT
from tests.services.peers import everything_server

VERSION, HANDSHAKE = "2026-07-28", "2025-11-25"
#: What this protocol asks of a gateway with tools.
PASSES = frozenset({
    "dns-rebinding-protection", "http-header-validation", "json-schema-2020-12", "sep-2164-resource-not-found",
    "server-sse-multiple-streams", "server-stateless", "tools-call-audio", "tools-call-embedded-resource",
    "tools-call-error", "tools-call-image", "tools-call-mixed-content", "tools-call-simple-text",
    "tools-call-with-progress", "tools-list",
    # What these ask holds of every server that asks for no input.
    "input-required-result-ignore-extra-params", "input-required-result-missing-input-response",
    "input-required-result-unsupported-methods", "input-required-result-validate-input",
})  # fmt: skip
#: By how a scenario's name begins, why it does not pass yet.
NOT_YET = {
    "caching": "the hints for tools pass; prompts and resources are not passed through yet",
    "completion-": "completion is not passed through yet",
    "elicitation-": "no server may ask a client for input yet",
    "http-custom-header-": "no listed tool wants arguments in headers: the gateway takes the wish out, see results.py",
    "input-required-": "no server may ask a client for input yet",
    "logging-": "log messages of servers are not passed through yet",
    "prompts-": "prompts are not passed through yet",
    "resources-": "resources are not passed through yet",
    "server-sse-polling": "no stream has event ids, so there is nothing to poll for",
    "tasks-": "tasks are an extension that is not offered",
    "tools-call-elicitation": "no server may ask a client for input yet",
    "tools-call-sampling": "no server may ask a client for input yet",
    "tools-call-with-logging": "log messages of servers are not passed through yet",
}
#: What the revision before asks of a gateway with tools, in a session.
HANDSHAKE_PASSES = frozenset({
    "dns-rebinding-protection", "json-schema-2020-12", "ping", "server-initialize",
    "server-session-lifecycle", "server-sse-multiple-streams", "tools-call-audio", "tools-call-embedded-resource",
    "tools-call-error", "tools-call-image", "tools-call-mixed-content", "tools-call-simple-text",
    "tools-call-with-progress", "tools-list",
})  # fmt: skip


def unexpected(report: Report, passes: frozenset[str]) -> dict[str, str]:
    """Scenarios that pass and were not known to, that fail, or that nobody has given a reason for."""
    said = {}
    for name, found in report.items():
        if name in passes and not passed(found):
            said[name] = "; ".join(found["failures"]) or "it was not run"
        elif name not in passes and passed(found):
            said[name] = "it passes now: say so in tests/front/suite.py"
    return said | dict.fromkeys(passes - report.keys(), "the suite has it no more")


def passed(found: dict[str, int]) -> bool:
    return found["passed"] > 0 and not found["failed"]


def why_not(name: str) -> str:
    return next((why for start, why in NOT_YET.items() if name.startswith(start)), "")


@contextmanager
def gateway(place: Path, broker: str) -> Iterator[tuple[str, str]]:
    """A web process in front of the server that the suite is written against: the URL there, and a bearer."""
    with (
        everything_server(place / "everything") as upstream,
        running(place, broker, 1, EGRESS_ALLOW=f"127.0.0.1:{URL(upstream).port}") as webs,
    ):
        made = world_of(webs, Wanted(url=upstream, server="everything"))
        yield f"http://127.0.0.1:{webs.ports[0]}/mcp/everything", made["tokens"]["bot"]


def world_of(webs: Webs, wanted: Wanted) -> dict[str, Any]:
    """Made in the database of these web processes."""
    command = [sys.executable, "-m", "tests.mcp.world", json.dumps(asdict(wanted))]
    done = subprocess.run(command, cwd=ROOT, env=webs.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def through_the_gateway(place: Path, broker: str) -> dict[str, Report]:
    with gateway(place, broker) as (url, token):
        return asyncio.run(check(url, token, (VERSION, HANDSHAKE), place))


def table(report: Report) -> Iterator[str]:
    for name, found in report.items():
        counts = f"{found['passed']:3} passed {found['failed']:3} failed"
        yield f"{name:46} {counts}  {'passes' if passed(found) else why_not(name)}"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gatehouse-conformance-") as folder:
        place = Path(folder)
        with valkey.server(place / "valkey.sock"):
            said = through_the_gateway(place, f"redis+socket://{place / 'valkey.sock'}")
    wrong = unexpected(said[VERSION], PASSES) | unexpected(said[HANDSHAKE], HANDSHAKE_PASSES)
    for version in (VERSION, HANDSHAKE):
        print(f"{version}:", *table(said[version]), sep="\n")
    for name, what in wrong.items():
        print(f"UNEXPECTED {name}: {what}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
