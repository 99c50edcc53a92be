"""What is taken out of texts and structures, by one policy and one set of known secrets."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from common.redaction import contexts, keys, personal, tokens, values
from common.redaction.masks import MASK, UNREADABLE, Find, merged, replaced
from common.redaction.names import is_secret

#: Nothing shorter holds a secret that anything here would find.
SHORTEST = 6
#: The JSON that this house reads is no deeper.
DEEPEST = 64
MOST_PARTS = 1_000_000
#: A text in which finds still appear after so many rounds was made for that.
ROUNDS = 4
Finder = Callable[[str], Iterable[Find]]


@dataclass(frozen=True)
class Policy:
    """Secrets always go unless somebody says otherwise; what belongs to people stays unless somebody says so."""

    secrets: bool = True
    email: bool = False
    phone: bool = False
    ip: bool = False


DEFAULT = Policy()


@dataclass(frozen=True)
class Redactor:
    """Cheap to make: the forms of the known values are worked out once for each set of them."""

    policy: Policy = DEFAULT
    known: frozenset[str] = field(default=frozenset(), repr=False)

    def text(self, text: str) -> str:
        return self._text(text)[0]

    def value(self, value: Any) -> Any:
        """The same structure without its secrets."""
        return self.result(value)[0]

    def result(self, value: Any) -> tuple[Any, bool]:
        """A copy without secrets, and whether anything was taken out of it."""
        try:
            walk = _Walk(self)
            return walk.of(value), walk.changed
        except Exception:  # whatever it is, the value was not looked at and goes nowhere
            return UNREADABLE, True

    def finds(self, text: str) -> list[Find]:
        """What would go, in order; nothing of it overlaps."""
        found = [item for finder in self._finders() for item in finder(text)]
        return merged(text, found) if found else found

    def forms(self) -> tuple[values.Form, ...]:
        return values.forms(self.known) if self.known and self.policy.secrets else ()

    def _text(self, text: str) -> tuple[str, bool]:
        if len(text) < SHORTEST:
            return text, False
        try:
            clean = self._until_quiet(text)
            if clean != text and text.lstrip()[:1] in ("{", "[", '"'):
                clean = self._as_json(text, clean)
        except Exception:  # the same
            return UNREADABLE, True
        return clean, clean != text

    def _until_quiet(self, text: str) -> str:
        """Until another round finds nothing, so that redacting the outcome changes nothing."""
        for _ in range(ROUNDS):
            found = self.finds(text)
            clean = replaced(text, found) if found else text
            if clean == text:
                return text
            text = clean
        return MASK

    def _as_json(self, text: str, clean: str) -> str:
        """What was JSON stays JSON: where masks in its text broke it, it is walked instead."""
        if not _is_json(text) or _is_json(clean):
            return clean
        return json.dumps(_Walk(self).of(json.loads(text)), ensure_ascii=False)

    def _finders(self) -> Iterator[Finder]:
        if self.policy.secrets:
            if forms := self.forms():
                yield lambda text: values.finds(text, forms)
            yield from (tokens.finds, keys.finds, contexts.finds)
        if self.policy.email:
            yield personal.emails
        if self.policy.phone:
            yield personal.phones
        if self.policy.ip:
            yield personal.addresses


class _Walk:
    """One walk through one value, which knows how far it went and whether it changed anything."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._left = MOST_PARTS
        self.changed = False

    def of(self, value: Any, depth: int = 1) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes | bytearray):
            return self._bytes(value)
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            return value
        self._left -= len(value)
        if depth > DEEPEST or self._left < 0:
            self.changed = True
            return UNREADABLE
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        return [self.of(item, depth + 1) for item in value]

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, item in value.items():
            name = self._name(key)
            if name is not key and name in made:
                name = _free(name, made)
            if self._redactor.policy.secrets and is_secret(str(key), item):
                self.changed = self.changed or item != MASK
                made[name] = MASK
            else:
                made[name] = self.of(item, depth + 1)
        return made

    def _name(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._text(key)
        clean = key if key is None or isinstance(key, int | float) else self._text(str(key))
        return key if clean == str(key) else clean

    def _text(self, text: str) -> str:
        clean, changed = self._redactor._text(text)
        self.changed = self.changed or changed
        return clean

    def _bytes(self, value: bytes | bytearray) -> bytes:
        text = value.decode("utf-8", "surrogateescape")
        return self._text(text).encode("utf-8", "surrogateescape")


def _free(name: str, taken: Mapping[Any, Any]) -> str:
    """Two names that look alike without their secrets stay two."""
    number = 2
    while f"{name} {number}" in taken:
        number += 1
    return f"{name} {number}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
