"""What in a tool's definition a person should look at twice. Hints for a reader, never a ground to allow."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

#: Marks that show nothing or turn text around; tag characters spell words that only a model reads.
HIDDEN_CATEGORIES = frozenset({"Cf", "Co", "Cn", "Cs"})
CONTROL = frozenset(chr(code) for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160)))
#: What an emoji and some scripts are written with.
HARMLESS = frozenset("\u200d\ufe0f\u200c")
LOOKS_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")
#: Phrases that speak to a model rather than describe a tool, and what is said of them.
INSTRUCTIONS = {
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|other|all)\b": (
        "tells the reader to ignore what it was told"
    ),
    r"\b(?:do not|don't|never)\b.{0,30}\b(?:tell|mention|inform|reveal|show|notify)\b.{0,30}\b(?:user|anyone|human)": (
        "asks to keep something from the user"
    ),
    r"\b(?:before|after|when|whenever)\b.{0,60}\b(?:first|always|must)\b.{0,40}\b(?:call|read|send|run|include)\b": (
        "demands another step around its own use"
    ),
    r"\bfirst\s+(?:call|read|send|run|open|include)\b": "demands another step before its own use",
    r"\b(?:you must|you should always|always)\b.{0,40}\b(?:call|read|send|include|pass|append|use)\b": (
        "gives orders to the reader"
    ),
    r"(?:~/\.|/etc/passwd|\.ssh\b|id_rsa|\.env\b|\.aws/|mcp\.json)": "names a place where secrets are kept",
    r"<\s*/?\s*(?:important|system|instructions?|secret|hidden)\b": "has a tag that poses as instructions",
    r"\bsystem prompt\b|\byou are now\b|\bnew instructions?\b": "speaks to the model about its instructions",
}
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), said) for pattern, said in INSTRUCTIONS.items())
COMMENT = re.compile(r"<!--")
LONG_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{400,}")


@dataclass(frozen=True)
class Flag:
    kind: str
    place: str
    message: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def of_definition(body: dict[str, Any], others: frozenset[str] = frozenset()) -> list[Flag]:
    """Hidden marks and text like instructions, wherever the definition has text; and mentions of `others`' tools."""
    found: list[Flag] = []
    for place, text in texts(body):
        found.extend(_hidden(place, text))
        found.extend(_instructions(place, text))
        found.extend(_mentions(place, text, others))
    return found[:50]


def texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every string with its place, names of properties included: a model reads them too."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{name}" if place else str(name)
            yield f"{inner} (name)", str(name)
            yield from texts(item, inner)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from texts(item, f"{place}[{number}]")


def is_hidden(mark: str) -> bool:
    if mark in HARMLESS:
        return False
    return mark in CONTROL or mark in LOOKS_BLANK or unicodedata.category(mark) in HIDDEN_CATEGORIES


def _hidden(place: str, text: str) -> list[Flag]:
    marks = sorted({mark for mark in text if is_hidden(mark)})
    if not marks:
        return []
    named = ", ".join(f"U+{ord(mark):04X}" for mark in marks[:6])
    more = f" and {len(marks) - 6} more" if len(marks) > 6 else ""
    return [Flag("hidden_unicode", place, f"holds marks that show nothing: {named}{more}")]


def _instructions(place: str, text: str) -> list[Flag]:
    # Marks between letters hide a phrase from a search as well as from a reader.
    plain = "".join(mark for mark in unicodedata.normalize("NFKC", text) if not is_hidden(mark))
    flags = [Flag("instruction", place, said) for pattern, said in _COMPILED if pattern.search(plain[:20_000])]
    if COMMENT.search(plain):
        flags.append(Flag("comment", place, "holds a comment that a page would not show"))
    if LONG_BLOB.search(plain):
        flags.append(Flag("blob", place, "holds a long run of encoded text"))
    return flags


def _mentions(place: str, text: str, others: frozenset[str]) -> list[Flag]:
    if not others or place.endswith("(name)"):
        return []
    words = set(re.findall(r"[A-Za-z0-9_.-]{4,128}", text))
    return [
        Flag("mention", place, f"speaks of {name}, a tool of another server") for name in sorted(words & others)[:3]
    ]
