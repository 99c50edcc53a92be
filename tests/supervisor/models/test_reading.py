"""Answers as endpoints differ in writing them, and tools by names that every endpoint takes."""

from typing import Any

import pytest

from supervisor.chat.answers import Answer, Assembly, Call
from supervisor.chat.offers import LONGEST_DESCRIPTION, MOST, NAME, Offer
from tests.supervisor.models.endpoint import delta

pytestmark = pytest.mark.capability("SUP-13")
Json = dict[str, Any]


def read(*fragments: Json) -> Answer:
    assembly = Assembly(lambda _text: None)
    for fragment in fragments:
        assembly.take(delta({"tool_calls": [fragment]}))
    assembly.end()
    return assembly.answer()


def part(arguments: str, name: str = "", **said: Any) -> Json:
    return {**said, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "fragments",
    [
        [part("{", "t", index=0, id="a"), part("{", "u", index=1, id="b"), part("}", index=1), part("}", index=0)],
        [part("{", "t", index=0, id="a"), part("}", "t", index=0, id="a"), part("{}", "u", index=1, id="b")],
        [part("{}", "t", index=0, id="a"), part("{}", "u", index=0, id="b")],
        [part("{", "t", id="a"), part("}"), part("{}", "u", id="b")],
    ],
    ids=["side by side", "the name again", "all are the first", "no numbers"],
)
def test_the_fragments_of_two_calls_are_kept_apart(fragments: list[Json]) -> None:
    assert read(*fragments).calls == (Call("a", "t", "{}"), Call("b", "u", "{}"))


def test_calls_without_an_id_get_one() -> None:
    assembly = Assembly(lambda _text: None)
    assembly.take({"choices": [{"message": {"content": None, "tool_calls": [part("{}", "t"), part("{}", "u")]}}]})
    assert [(call.id, call.name) for call in assembly.answer().calls] == [("call_1", "t"), ("call_2", "u")]


def test_each_tool_has_one_name_that_leads_back_to_it_and_stays_the_same() -> None:
    odd = ["a__b.c", "a__b/c", "a__" + "x" * 70, "a__" + "x" * 71]
    first = Offer([{"name": name} for name in odd])
    names = [tool["function"]["name"] for tool in first.tools]
    assert len({*names}) == len(odd) and all(NAME.fullmatch(name) for name in names)
    assert [first.tool(name) for name in names] == odd

    # One whose own name is just what another is spelled as.
    crowded = Offer([{"name": name} for name in [*odd, names[0]]])
    assert crowded.tool(names[0]) == names[0]
    again = [tool["function"]["name"] for tool in crowded.tools]
    assert again[1:4] == names[1:] and crowded.tool(again[0]) == odd[0]


def test_no_more_is_offered_than_an_endpoint_takes() -> None:
    offer = Offer([{"name": f"a__{number}", "description": "x" * 5000} for number in range(MOST + 3)])
    assert (len(offer.tools), offer.left_out) == (MOST, 3)
    assert {len(tool["function"]["description"]) for tool in offer.tools} == {LONGEST_DESCRIPTION}
    assert offer.tool("never offered") == "never offered"
