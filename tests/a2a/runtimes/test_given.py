"""What a run is given of what a task's caller said."""

from typing import Any

import pytest

from a2a import given
from a2a.given import ForRun

pytestmark = pytest.mark.capability("A2A-07")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([{"text": "Water"}], ForRun("Water")),
        ([{"text": "Water"}, {"text": "it"}], ForRun("Water\nit")),
        ([{"data": {"input": "Water"}}], ForRun("Water")),
        ([{"data": {"input": "Water", "parameters": {"n": 1}}}], ForRun("Water", {"n": 1})),
        ([{"data": {"parameters": {"n": 1}}}], ForRun("", {"n": 1})),
        ([{"data": {"input": {"a": 1}}}], ForRun('{"a": 1}')),
        ([{"data": {"input": "Water", "more": 1}}], ForRun('{"input": "Water", "more": 1}')),
        ([{"data": {"parameters": 5}}], ForRun('{"parameters": 5}')),
        ([{"data": {}}], ForRun("{}")),
        ([{"data": ["ä", 1]}], ForRun('["ä", 1]')),
        ([{"data": "Water"}], ForRun("Water")),
        ([{"text": "a"}, {"data": 1}], ForRun('{"parts": [{"text": "a"}, {"data": 1}]}')),
        ([{"url": "https://example.com/a.pdf"}], ForRun('{"parts": [{"url": "https://example.com/a.pdf"}]}')),
    ],
)
def test_what_a_run_is_given(parts: list[Any], expected: ForRun) -> None:
    assert given.for_run(parts) == expected
