"""The official suite runs through our door, and finds nothing amiss in the server that it was written against."""

import asyncio
from pathlib import Path

import pytest

from tests.peers.conformance import VERSIONS, check, failing
from tests.services.peers import everything_server

pytestmark = pytest.mark.capability("MCP-06")


def test_the_suite_passes_on_its_own_server(tmp_path: Path) -> None:
    with everything_server(tmp_path / "everything") as url:
        said = asyncio.run(check(url, "a-token", VERSIONS, tmp_path))
    for version, report in said.items():
        assert not failing(report), version
        assert sum(scenario["scored"] for scenario in report.values()) > 25
