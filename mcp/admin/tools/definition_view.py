"""A definition as a page shows it, and what parts two of them."""

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from mcp.models import ToolDefinition
from mcp.tools import definitions

#: In the order in which a person reads them, with the words of a page.
FIELDS = (
    ("title", "Title"),
    ("description", "Description"),
    ("inputSchema", "Arguments"),
    ("outputSchema", "Result"),
    ("annotations", "Hints, which nobody has checked"),
    ("_meta", "Further data"),
    ("icons", "Icons"),
    ("server", "Server, as it was reached"),
)
PLACES = ("name", *(name for name, _ in FIELDS))
SIGNS = {"added": "+", "removed": "\u2212", "changed": "\u00b1"}
#: Longer texts are shown whole, without marks inside them.
MOST_COMPARED = 6000
WORDS = re.compile(r"\s+|\w+|[^\w\s]")
#: The place of a flag that is about no field alone.
WHOLE = "definition"
#: For who may not see how servers are reached.
HIDDEN = "not shown to you"
#: A value is never pinned, only that it is another one.
SECRETS = "server.secrets."


@dataclass(frozen=True)
class Field:
    label: str
    text: str
    #: Drawn as code: what a program reads rather than a person.
    is_code: bool
    flags: list[str]


@dataclass(frozen=True)
class Piece:
    text: str
    differs: bool = False


@dataclass(frozen=True)
class Line:
    """One place that differs, with its two sides in pieces; a side without it has none."""

    place: str
    kind: str
    before: list[Piece]
    after: list[Piece]
    flags: list[str]

    @property
    def sign(self) -> str:
        return SIGNS[self.kind]


def fields(definition: ToolDefinition, *, with_server: bool) -> list[Field]:
    """`with_server`: whether how the server is reached is shown too."""
    body, flagged = definition.body, _flagged(definition)
    return [
        Field(label, _shown(body[name]), not isinstance(body[name], str), _about(name, flagged))
        for name, label in FIELDS
        if body.get(name) and (with_server or name != "server")
    ]


def lines(before: ToolDefinition, after: ToolDefinition, *, with_server: bool) -> list[Line]:
    """Field by field; without it, of how the server is reached only what is another than before."""
    flagged = _flagged(after)
    changes = definitions.find_differences(before.body, after.body)
    if not with_server:
        changes = [_without_values(change) for change in changes]
    return [_line(change, flagged) for change in sorted(changes, key=_rank)]


def places(found: list[Line]) -> list[str]:
    """The fields that changed, said once each: what a person reads before the details."""
    labels = dict(FIELDS)
    return list(dict.fromkeys(labels.get(line.place.partition(".")[0], line.place).lower() for line in found))


def elsewhere(definition: ToolDefinition, found: list[Line], *, whole: bool = False) -> list[dict[str, Any]]:
    """Flags on what did not change: said too, since they may have been overlooked before.

    Where the `whole` definition is on the page, those that are about none of its fields.
    """
    if whole:
        return [flag for flag in definition.flags if flag["place"] == WHOLE]
    shown = {message for line in found for message in line.flags}
    return [flag for flag in definition.flags if flag["message"] not in shown]


def _without_values(change: definitions.DefinitionChange) -> definitions.DefinitionChange:
    if change.place.partition(".")[0] != "server":
        return change
    field = ".".join(change.place.split(".")[:2])
    return definitions.DefinitionChange(field, change.kind, change.before and HIDDEN, change.after and HIDDEN)


def _rank(change: definitions.DefinitionChange) -> tuple[int, str]:
    top = change.place.partition(".")[0]
    return (PLACES.index(top) if top in PLACES else len(PLACES)), change.place


def _flagged(definition: ToolDefinition) -> list[tuple[str, str]]:
    return [(str(flag["place"]), str(flag["message"])) for flag in definition.flags]


def _about(place: str, flagged: list[tuple[str, str]]) -> list[str]:
    return [said for where, said in flagged if _is_in(where, place)]


def _is_in(where: str, place: str) -> bool:
    """A flag on a property's name is about everything below it too."""
    named = where.removesuffix(" (name)")
    below = (f"{place}.", f"{place}[")
    return named == place or named.startswith(below) or (named != where and place.startswith(f"{named}."))


def _line(change: definitions.DefinitionChange, flagged: list[tuple[str, str]]) -> Line:
    about = _about(change.place, flagged)
    if change.place.startswith(SECRETS):
        old, new = "set before" if change.before else "", "another value" if change.before else "set"
        new = new if change.after else ""
        return Line(change.place, change.kind, _whole(old), _whole(new), about)
    if change.kind != "changed":
        return Line(change.place, change.kind, _whole(change.before), _whole(change.after), about)
    return Line(change.place, change.kind, *compared(change.before, change.after), about)


def compared(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces, with the words marked that the other lacks."""
    if max(len(before), len(after)) > MOST_COMPARED:
        return _whole(before), _whole(after)
    old, new = WORDS.findall(before), WORDS.findall(after)
    left, right = list[Piece](), list[Piece]()
    for tag, start, end, begin, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        left += _whole("".join(old[start:end]), differs=tag != "equal")
        right += _whole("".join(new[begin:stop]), differs=tag != "equal")
    return left, right


def _whole(text: str, *, differs: bool = False) -> list[Piece]:
    return [Piece(text, differs)] if text else []


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
