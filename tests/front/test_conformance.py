"""The official conformance suite through the gateway: what it promises passes, what it has not yet is told by name."""

from pathlib import Path

import pytest

from tests.front import suite
from tests.front.suite import HANDSHAKE, HANDSHAKE_PASSES, PASSES, VERSION, unexpected

pytestmark = [pytest.mark.capability("MCP-06"), pytest.mark.xdist_group("house")]
#: Of the hints for caching, only those for what is not passed through are missing.
NO_HINTS = {f"sep-2549-{what}-list-caching-hints" for what in ("prompts", "resources", "resources-templates")}


def test_each_scenario_does_what_is_written_of_it(tmp_path: Path, broker: str) -> None:
    said = suite.through_the_gateway(tmp_path, broker)
    assert unexpected(said[VERSION], PASSES) == {}
    assert unexpected(said[HANDSHAKE], HANDSHAKE_PASSES) == {}
    for version, passes in ((VERSION, PASSES), (HANDSHAKE, HANDSHAKE_PASSES)):
        assert [name for name in said[version].keys() - passes if not suite.why_not(name)] == []
    assert {failure.partition(":")[0] for failure in said[VERSION]["caching"]["failures"]} == NO_HINTS
