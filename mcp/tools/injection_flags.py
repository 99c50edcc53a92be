"""Flags hidden characters and prompt injection in tool definitions. Flags are hints for reviewers, never permissions.

Every rule reads the whole text in one pass: no text is too long to be read, and no phrase can hide across the border of
two windows. The work is linear in the length of the text, whatever a server writes.
"""

import hashlib
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

#: Incremented with every change of the rules, so that all definitions are flagged again.
RULES_VERSION = 2
#: Characters that are invisible or reverse text. Tag characters spell words that only a model reads.
HIDDEN_CATEGORIES = frozenset({"Cf", "Co", "Cn", "Cs"})
CONTROL_CHARACTERS = frozenset(chr(code) for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160)))
#: Characters that emoji and some scripts need.
HARMLESS_CHARACTERS = frozenset("\u200d\ufe0f\u200c")
BLANK_CHARACTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")

#: A reviewer may not read a longer definition to its end.
MAX_UNFLAGGED_CHARS = 4000
MAX_FLAGS = 50
MIN_BLOB_CHARS = 400
#: Shorter names of other servers' objects occur in any text.
MIN_NAME_CHARS = 4

#: Phrases that address a model instead of describing a tool. Each is a chain of steps. A step has alternative words and
#: the maximum number of characters between it and the previous step.
PhraseStep = tuple[str, int]
PHRASES: tuple[tuple[str, tuple[PhraseStep, ...]], ...] = (
    (
        "tells the reader to ignore what it was told",
        (("ignore|disregard|forget|override", 0), ("previous|prior|above|earlier|other|all", 42)),
    ),
    (
        "asks to keep something from the user",
        (
            ("do not|don't|never", 0),
            ("tell|mention|inform|reveal|show|notify", 32),
            ("user|users|anyone|human|humans", 32),
        ),
    ),
    (
        "demands another step around its own use",
        (
            ("before|after|when|whenever|prior to", 0),
            ("first|always|must", 62),
            ("call|read|send|run|include|obtain|fetch|copy|attach|forward|execute", 42),
        ),
    ),
    ("demands another step before its own use", (("first", 0), ("call|read|send|run|open|include|obtain|fetch", 1))),
    (
        "demands another step before its own use",
        (
            ("before|prior to", 0),
            ("use|using|calling|invoking", 20),
            ("call|read|send|run|open|include|obtain|fetch|copy", 42),
        ),
    ),
    (
        "gives orders to the reader",
        (("you must|you should always|always", 0), ("call|read|send|include|pass|append|use", 42)),
    ),
    (
        "speaks to the model about its instructions",
        (("system prompt|you are now|new instruction|new instructions", 0),),
    ),
)
#: Rules that a chain of words cannot express. No pattern looks further than a few characters ahead.
PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "names a place where secrets are kept",
        re.compile(r"~/\.|/etc/passwd|\.ssh\b|id_rsa|\.env\b|\.aws/|mcp\.json|\bssh (?:folder|directory|keys?)\b"),
    ),
    (
        "has a tag that poses as instructions",
        re.compile(r"< ?/? ?(?:important|system|instructions?|secret|hidden)\b"),
    ),
)
WORD = re.compile(r"\w+(?:'\w+)?")
BLOB = re.compile(r"[A-Za-z0-9+/=_-]+")
#: Letters and digits, joined by the punctuation that object names may contain.
RUN = re.compile(r"[a-z0-9_]+(?:[./:-]+[a-z0-9_]+)*")
ATOM = re.compile(r"[a-z0-9_]+")
#: Names that an English text can contain without mentioning a tool.
PLAIN_WORD = re.compile(r"[a-z]+")
#: The first kinds are kept when there are too many flags.
FLAG_ORDER = ("hidden_unicode", "instruction", "mention", "comment", "blob", "long", "common_word")


@dataclass(frozen=True)
class DefinitionFlag:
    """A finding in one place of a tool definition, with a message for reviewers."""

    kind: str
    place: str
    message: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class ObjectName:
    """The name, server and capability of an object of another server."""

    server: str
    name: str
    capability: str | None


class NameVocabulary:
    """The names of other servers' objects. A text is searched once, regardless of the number of names."""

    def __init__(self, objects: Sequence[ObjectName] = (), *, excluded_server: str = "") -> None:
        """Collect the names of all objects except those of `excluded_server`, whose texts are searched."""
        servers: dict[str, dict[str, None]] = defaultdict(dict)
        spellings: dict[str, str] = {}
        for object_name in objects:
            if object_name.server == excluded_server:
                continue
            for name in (object_name.name, f"{object_name.server}__{object_name.name}", object_name.capability or ""):
                key = _normalised(name).strip("./:-")
                if len(key) >= MIN_NAME_CHARS:
                    servers[key].setdefault(object_name.server)
                    spellings.setdefault(key, name)
        self.digest = digest_names(objects)
        self._messages = {key: (spellings[key], tuple(sorted(names))) for key, names in servers.items()}
        #: The maximum number of parts of a name, by its first part: the search distance after that part.
        self._max_parts: dict[str, int] = defaultdict(int)
        for key in self._messages:
            parts = ATOM.findall(key)
            if parts:
                self._max_parts[parts[0]] = max(self._max_parts[parts[0]], len(parts))

    def __bool__(self) -> bool:
        return bool(self._messages)

    def names_in(self, normalised: str) -> set[str]:
        """Return the names in a normalised text, each between word boundaries."""
        names: set[str] = set()
        for run in RUN.finditer(normalised):
            text = run.group()
            parts = [(part.start(), part.end()) for part in ATOM.finditer(text)]
            for index, (start, end) in enumerate(parts):
                first = text[start:end]
                names.update(key for key in (first, first.strip("_")) if key in self._messages)
                for _, later_end in parts[index + 1 : index + self._max_parts.get(first, 1)]:
                    if text[start:later_end] in self._messages:
                        names.add(text[start:later_end])
        return names

    def build_flag(self, key: str, places: list[str]) -> DefinitionFlag:
        name, servers = self._messages[key]
        others = f" and {len(servers) - 2} more" if len(servers) > 2 else ""
        owners = f"{'the server' if len(servers) == 1 else 'the servers'} {', '.join(servers[:2])}{others}"
        more = len(places) - 1
        where = f", also in {more} more {'place' if more == 1 else 'places'}" if more else ""
        if is_plain_word(key):
            message = f"uses the word {name}, which is the name of a tool of {owners}{where}"
            return DefinitionFlag("common_word", places[0], message)
        return DefinitionFlag("mention", places[0], f"speaks of {name}, a tool of {owners}{where}")


def digest_names(objects: Iterable[ObjectName]) -> str:
    """Return a digest of the rules and all object names. Definitions with another digest are flagged again."""
    digest = hashlib.sha256(f"{RULES_VERSION}".encode())
    for object_name in objects:
        digest.update(f"\n{object_name.server} {object_name.name} {object_name.capability}".encode())
    return digest.hexdigest()


EMPTY_VOCABULARY = NameVocabulary()


def find_flags(body: dict[str, Any], vocabulary: NameVocabulary = EMPTY_VOCABULARY) -> list[DefinitionFlag]:
    """Find hidden characters, instructions and names of the vocabulary in all texts of a definition."""
    flags: list[DefinitionFlag] = []
    mentions: dict[str, list[str]] = defaultdict(list)
    for place, text in iterate_texts(body):
        hidden = {mark for mark in set(text) if is_hidden(mark)}
        if hidden:
            flags.append(_build_hidden_flag(place, hidden))
        if len(text) < MIN_NAME_CHARS:
            continue
        normalised = _normalised(text, hidden)
        flags.extend(_find_instruction_flags(place, normalised))
        for key in vocabulary.names_in(normalised) if vocabulary else ():
            # A tool's own name is qualified by its server, and names of properties are ordinary words.
            if place != "name" and not (place.endswith("(name)") and is_plain_word(key)):
                mentions[key].append(place)
    flags.extend(vocabulary.build_flag(key, places) for key, places in sorted(mentions.items()))
    length = len(json.dumps(body, ensure_ascii=False))
    if length > MAX_UNFLAGGED_CHARS:
        flags.append(DefinitionFlag("long", "definition", f"is long: {length:,} characters. Read it to its end"))
    return _limit_flags(flags)


def iterate_texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string with its place, including names of properties, because a model reads them too."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{name}" if place else str(name)
            yield f"{inner} (name)", str(name)
            yield from iterate_texts(item, inner)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from iterate_texts(item, f"{place}[{number}]")


def is_hidden(mark: str) -> bool:
    if mark in HARMLESS_CHARACTERS:
        return False
    return mark in CONTROL_CHARACTERS or mark in BLANK_CHARACTERS or unicodedata.category(mark) in HIDDEN_CATEGORIES


def is_plain_word(key: str) -> bool:
    return PLAIN_WORD.fullmatch(key) is not None


def _normalised(text: str, hidden: Iterable[str] = ()) -> str:
    """Prepare a text for the search: one case, single spaces, no invisible characters."""
    plain = text.translate(dict.fromkeys(map(ord, hidden))) if hidden else text
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain).replace("\u2019", "'")
        # Normalization turns some characters into invisible ones.
        plain = plain.translate({ord(mark): None for mark in set(plain) if is_hidden(mark)})
    return " ".join(plain.casefold().split())


def _build_hidden_flag(place: str, hidden: set[str]) -> DefinitionFlag:
    marks = sorted(hidden)
    codes = ", ".join(f"U+{ord(mark):04X}" for mark in marks[:6])
    more = f" and {len(marks) - 6} more" if len(marks) > 6 else ""
    return DefinitionFlag("hidden_unicode", place, f"holds marks that show nothing: {codes}{more}")


def _find_instruction_flags(place: str, normalised: str) -> list[DefinitionFlag]:
    messages = dict.fromkeys(_find_phrases(normalised))
    messages |= dict.fromkeys(message for message, pattern in PATTERNS if pattern.search(normalised))
    flags = [DefinitionFlag("instruction", place, message) for message in messages]
    if "<!--" in normalised:
        flags.append(DefinitionFlag("comment", place, "holds a comment that a page would not show"))
    if any(len(run.group()) >= MIN_BLOB_CHARS for run in BLOB.finditer(normalised)):
        flags.append(DefinitionFlag("blob", place, "holds a long run of encoded text"))
    return flags


def _steps_by_last_word() -> dict[str, list[tuple[tuple[str, ...], int, int]]]:
    """Index the alternatives of all steps by their last word: the words, the phrase and the number of the step."""
    steps: dict[str, list[tuple[tuple[str, ...], int, int]]] = defaultdict(list)
    for phrase, (_, chain) in enumerate(PHRASES):
        for number, (alternatives, _) in enumerate(chain):
            for alternative in alternatives.split("|"):
                words = tuple(alternative.split())
                steps[words[-1]].append((words, phrase, number))
    return dict(steps)


_STEPS = _steps_by_last_word()


def _find_phrases(normalised: str) -> list[str]:
    """Return the messages of the phrases in a text.

    Each word is read once. For each step of each phrase only the last match matters, because it is the nearest to any
    later word.
    """
    last_ends: dict[tuple[int, int], int] = {}
    complete: dict[int, None] = {}
    recent_words: list[tuple[str, int]] = []
    for match in WORD.finditer(normalised):
        word = match.group()
        recent_words.append((word, match.start()))
        del recent_words[:-3]
        for form in {word, word.partition("'")[0]}:
            for words, phrase, number in _STEPS.get(form, ()):
                start = _find_alternative_start(words, recent_words)
                if start is None:
                    continue
                chain = PHRASES[phrase][1]
                if number and not 0 <= start - last_ends.get((phrase, number - 1), -1000) <= chain[number][1]:
                    continue
                last_ends[phrase, number] = match.end()
                if number == len(chain) - 1:
                    complete[phrase] = None
    return [PHRASES[phrase][0] for phrase in complete]


def _find_alternative_start(words: tuple[str, ...], recent_words: list[tuple[str, int]]) -> int | None:
    """Return the start of the alternative that ends with the current word; None if its other words are missing."""
    if len(words) > 1 and tuple(word for word, _ in recent_words[-len(words) : -1]) != words[:-1]:
        return None
    return recent_words[-len(words)][1] if len(recent_words) >= len(words) else None


def _limit_flags(flags: list[DefinitionFlag]) -> list[DefinitionFlag]:
    """Limit the flags to a number that a person can review. The most important kinds are kept first."""
    ordered = sorted(dict.fromkeys(flags), key=lambda flag: FLAG_ORDER.index(flag.kind))
    if len(ordered) <= MAX_FLAGS:
        return ordered
    omitted = len(ordered) - MAX_FLAGS + 1
    return [
        *ordered[: MAX_FLAGS - 1],
        DefinitionFlag("more", "definition", f"has {omitted} more flags, which are not listed here"),
    ]
