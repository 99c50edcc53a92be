"""Reading parameters: every problem is collected with its place, and told at once."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from a2a.wire.faults import invalid

MISSING = object()
_HUMP = re.compile(r"_([a-z0-9])")
Read = Callable[["Reader", str, Any], Any]


class Reader:
    """What is wrong so far. Its methods give a value that is safe to go on with, also where there is a problem."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []

    def wrong(self, place: str, said: str) -> None:
        self.problems.append((place, said))

    def settle(self) -> None:
        if self.problems:
            raise invalid(*self.problems)

    def text(self, place: str, value: Any, *, most: int = 4000) -> str:
        if not isinstance(value, str):
            self.wrong(place, "Give a text.")
            return ""
        if len(value) > most:
            self.wrong(place, f"Use at most {most} characters.")
        return value

    def flag(self, place: str, value: Any) -> bool:
        if isinstance(value, str) and value in {"true", "false"}:
            # As it stands in a query.
            return value == "true"
        if not isinstance(value, bool):
            self.wrong(place, "Give true or false.")
            return False
        return value

    def number(self, place: str, value: Any, *, least: int = 0, most: int = 2**31 - 1) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,10}", value):
            # JSON of protocol buffers lets numbers be texts, and in a query they are.
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.wrong(place, f"Give a whole number from {least} to {most}.")
            return least
        return value

    def choice(self, place: str, value: Any, choices: Sequence[str]) -> str:
        if value not in choices:
            self.wrong(place, f"Use one of {', '.join(choices)}.")
            return choices[0]
        return str(value)

    def texts(self, place: str, value: Any, *, most: int = 100) -> list[str]:
        return [self.text(f"{place}[{index}]", one) for index, one in enumerate(self.items(place, value, most=most))]

    def items(self, place: str, value: Any, *, most: int = 100) -> list[Any]:
        if not isinstance(value, list):
            self.wrong(place, "Give a list.")
            return []
        if len(value) > most:
            self.wrong(place, f"Give at most {most}.")
        return value[:most]

    def object(self, place: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self.wrong(place, "Give an object.")
            return {}
        return value

    def fields(
        self, place: str, value: Any, known: Mapping[str, Read], *, required: Sequence[str] = ()
    ) -> dict[str, Any]:  # fmt: skip
        """An object's known fields, in camelCase or snake_case, each as its reader gives it.

        Null is as good as absent, as in all JSON of protocol buffers; what the protocol does not know is left out.
        """
        said = self.object(place, value)
        given = {camel(name): one for name, one in said.items() if one is not None}
        if len({camel(name) for name in said}) != len(said):
            self.wrong(place or "params", "A field stands here in two spellings.")
        for name in required:
            if name not in given:
                self.wrong(below(place, name), "This is required.")
        return {name: read(self, below(place, name), given[name]) for name, read in known.items() if name in given}


def camel(name: str) -> str:
    return _HUMP.sub(lambda match: match[1].upper(), name)


def below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
