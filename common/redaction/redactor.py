"""What is taken out of texts and structures, by one policy and one set of known secrets."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from common.redaction import known_values, labelled_secrets, personal_data, private_keys, token_patterns
from common.redaction.cuts import safe_end
from common.redaction.masks import MASK, UNREADABLE, Find, merged, replaced
from common.redaction.secret_names import LONGEST_KEPT, MOST_KEPT, judged

#: Nothing shorter holds a secret, or an address, that anything here would find.
SHORTEST, SHORTEST_ADDRESS = 6, 3
#: The JSON that this house reads is no deeper.
DEEPEST = 64
MOST_PARTS = 1_000_000
#: A text in which finds still appear after so many rounds was made for that.
ROUNDS = 4
NUMBERS = (int, float)
OF_NUMBERS = frozenset("0123456789.+-e")
PARTS = (dict, list, tuple, set, frozenset, Mapping)
Finder = Callable[[str], Iterable[Find]]


@dataclass(frozen=True)
class Policy:
    """Secrets always go unless somebody says otherwise; what belongs to people stays unless somebody says so."""

    secrets: bool = True
    email: bool = False
    phone: bool = False
    ip: bool = False


DEFAULT = Policy()


class _Compiled:
    """What one policy and one set of known values come to."""

    def __init__(self, policy: Policy, known: frozenset[str]) -> None:
        self.forms = known_values.forms(known) if policy.secrets else ()
        self._sought = [(form.text, form) for form in self.forms]
        #: Secrets that may stand in JSON as a number, without quotes.
        self.numeric = tuple(form.text for form in self.forms if OF_NUMBERS.issuperset(form.text))
        self.secrets = policy.secrets
        self.shortest = SHORTEST_ADDRESS if policy.ip else SHORTEST
        chosen = (
            (policy.email, personal_data.emails),
            (policy.phone, personal_data.phones),
            (policy.ip, personal_data.addresses),
        )
        self.personal: list[Finder] = [finder for wanted, finder in chosen if wanted]
        #: Names that hold nothing, with what they say of their values: a text's, a number's.
        self.names: dict[str, tuple[bool, bool]] = {}

    def finds(self, text: str) -> list[Find]:
        found: list[Find] = []
        if forms := [form for sought, form in self._sought if sought in text]:
            found += known_values.finds(text, forms)
        if self.secrets:
            if rules := token_patterns.present(text):
                found += token_patterns.finds(text, rules)
            if private_keys.MARKER in text:
                found += private_keys.finds(text)
            found += labelled_secrets.finds(text)
        for finder in self.personal:
            found += finder(text)
        return merged(text, found) if found else found


_compiled = lru_cache(maxsize=128)(_Compiled)


@dataclass(frozen=True)
class Redactor:
    """Cheap to make: what a policy and a set of known values come to is worked out once."""

    policy: Policy = DEFAULT
    known: frozenset[str] = field(default=frozenset(), repr=False)
    _does: _Compiled = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_does", _compiled(self.policy, frozenset(self.known)))

    def text(self, text: str) -> str:
        try:
            return redacted(self._does, text)
        except Exception:  # whatever it is, the text was not looked at and goes nowhere
            return UNREADABLE

    def beginning(self, text: str) -> str:
        """The same of a text that breaks off: what may be the beginning of a secret at its end goes too."""
        try:
            return redacted(self._does, text[: safe_end(text, self._does.forms, self._does.finds(text))])
        except Exception:  # the same
            return UNREADABLE

    def value(self, value: Any) -> Any:
        """The same structure without its secrets."""
        return self.result(value)[0]

    def result(self, value: Any) -> tuple[Any, bool]:
        """A copy without secrets, and whether anything was taken out of it."""
        try:
            walk = _Walk(self._does)
            return walk.of(value), walk.changed
        except Exception:  # the same
            return UNREADABLE, True

    def finds(self, text: str) -> list[Find]:
        """What would go, in order; nothing of it overlaps."""
        return self._does.finds(text)

    def forms(self) -> tuple[known_values.Form, ...]:
        return self._does.forms


def redacted(does: _Compiled, text: str) -> str:
    """The same object when nothing was found."""
    if len(text) < does.shortest:
        return text
    clean = _until_quiet(does, text)
    if clean is not text and text.lstrip()[:1] in ("{", "[", '"') and _is_json(text) and not _is_json(clean):
        # Masks in its text broke what was JSON, so it is walked instead.
        clean = json.dumps(_Walk(does).of(json.loads(text)), ensure_ascii=False)
    return clean


def _until_quiet(does: _Compiled, text: str) -> str:
    """Until another round finds nothing, so that redacting the outcome changes nothing."""
    for _ in range(ROUNDS):
        found = does.finds(text)
        clean = replaced(text, found) if found else text
        if clean == text:
            return text
        text = clean
    return MASK


class _Walk:
    """One walk through one value, which knows how far it went and whether it changed anything."""

    def __init__(self, does: _Compiled) -> None:
        self._does = does
        self._left = MOST_PARTS
        self.changed = False

    def of(self, value: Any, depth: int = 1) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, NUMBERS):
            return self._number(value) if self._does.numeric else value
        if isinstance(value, PARTS):
            return self._parts(value, depth)
        if isinstance(value, bytes | bytearray):
            return self._text(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return value

    def _number(self, value: Any) -> Any:
        """A known secret of digits is masked as a number too: the mask is a string, so JSON stays JSON."""
        text = str(value)
        if not any(secret in text for secret in self._does.numeric):
            return value
        self.changed = True
        return MASK

    def _parts(self, value: Any, depth: int) -> Any:
        self._left -= len(value)
        if depth > DEEPEST or self._left < 0:
            self.changed = True
            return UNREADABLE
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        return [self.of(item, depth + 1) for item in value]

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        names = self._does.names
        for key, item in value.items():
            kinds = names.get(key) if type(key) is str else None
            name, (text, number) = (key, kinds) if kinds else self._name(key)
            if name in made:
                name = _free(name, made)
            if (number if isinstance(item, NUMBERS) else text) and item is not None and not isinstance(item, bool):
                self.changed = self.changed or item != MASK
                made[name] = MASK
            else:
                made[name] = self.of(item, depth + 1)
        return made

    def _name(self, key: Any) -> tuple[Any, tuple[bool, bool]]:
        """The key to show, and what it says of its value."""
        text = str(key)
        clean = self._text(text)
        kinds = judged(text) if self._does.secrets else (False, False)
        if clean is text and len(text) <= LONGEST_KEPT and len(self._does.names) < MOST_KEPT:
            self._does.names[text] = kinds
        return (key if clean is text else clean), kinds

    def _text(self, text: str) -> str:
        clean = redacted(self._does, text)
        if clean is not text:
            self.changed = self.changed or clean != text
        return clean


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
