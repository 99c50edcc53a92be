"""Applies a redaction policy to text and structures."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from common.redaction import known_secrets, labelled_secrets, personal_data, private_keys, token_patterns
from common.redaction.known_secrets import EncodedForm
from common.redaction.masks import MASK, UNREADABLE, SecretSpan, merge_spans, replace_spans
from common.redaction.secret_names import MAX_CACHED_NAME_LENGTH, MAX_CACHED_NAMES, classify_name

#: Characters that separate possible secrets.
WORD_END = re.compile(r"""[\s,;"'&<>]""")
#: Length of the text that is dropped if it has no separator: longer than most tokens.
MAX_PART_LENGTH = 8 * 1024


def find_safe_end(text: str, forms: Iterable[EncodedForm], spans: Sequence[SecretSpan]) -> int:
    """The end of the text that is safe to show: before a cut-off known value, before the last word, outside spans."""
    end = min(known_secrets.find_partial_value(text, forms), _find_last_word(text))
    return min((span.start for span in spans if span.start < end < span.end), default=end)


def _find_last_word(text: str) -> int:
    first = max(0, len(text) - MAX_PART_LENGTH)
    return max((match.end() for match in WORD_END.finditer(text, first)), default=first)


#: Shorter texts cannot contain a secret, or an IP address, that any rule finds.
MIN_SECRET_LENGTH, MIN_ADDRESS_LENGTH = 6, 3
#: The strict JSON reader accepts no deeper values.
MAX_DEPTH = 64
MAX_PARTS = 1_000_000
#: Only a hostile text still has matches after this many rounds.
MAX_ROUNDS = 4
NUMBER_TYPES = (int, float)
NUMBER_CHARACTERS = frozenset("0123456789.+-e")
CONTAINER_TYPES = (dict, list, tuple, set, frozenset, Mapping)
SpanFinder = Callable[[str], Iterable[SecretSpan]]


@dataclass(frozen=True)
class RedactionPolicy:
    """What to redact. By default secrets are redacted and personal data is not."""

    secrets: bool = True
    email: bool = False
    phone: bool = False
    ip: bool = False


DEFAULT_POLICY = RedactionPolicy()


class _CompiledPolicy:
    """The search rules for one policy and one set of known values."""

    def __init__(self, policy: RedactionPolicy, secret_values: frozenset[str]) -> None:
        self.forms = known_secrets.encode_forms(secret_values) if policy.secrets else ()
        self._texts_and_forms = [(form.text, form) for form in self.forms]
        #: Secrets that may occur in JSON as a number, without quotes.
        self.numeric = tuple(form.text for form in self.forms if NUMBER_CHARACTERS.issuperset(form.text))
        self.secrets = policy.secrets
        self.min_length = MIN_ADDRESS_LENGTH if policy.ip else MIN_SECRET_LENGTH
        personal_finders = (
            (policy.email, personal_data.find_emails),
            (policy.phone, personal_data.find_phones),
            (policy.ip, personal_data.find_ip_addresses),
        )
        self.personal: list[SpanFinder] = [finder for is_enabled, finder in personal_finders if is_enabled]
        #: Cache of names without secrets in them: whether a text and whether a number with this name is a secret.
        self.names: dict[str, tuple[bool, bool]] = {}

    def find_spans(self, text: str) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        if forms := [form for form_text, form in self._texts_and_forms if form_text in text]:
            spans += known_secrets.find_spans(text, forms)
        if self.secrets:
            if rules := token_patterns.find_matching_rules(text):
                spans += token_patterns.find_spans(text, rules)
            if private_keys.KEY_MARKER in text:
                spans += private_keys.find_spans(text)
            spans += labelled_secrets.find_spans(text)
        for finder in self.personal:
            spans += finder(text)
        return merge_spans(text, spans) if spans else spans


_compile_policy = lru_cache(maxsize=128)(_CompiledPolicy)


@dataclass(frozen=True)
class Redactor:
    """Redacts by one policy and one set of known values. Cheap to create: the compiled rules are cached."""

    policy: RedactionPolicy = DEFAULT_POLICY
    secret_values: frozenset[str] = field(default=frozenset(), repr=False)
    _compiled_policy: _CompiledPolicy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled_policy", _compile_policy(self.policy, frozenset(self.secret_values)))

    def redact_text(self, text: str) -> str:
        try:
            return redact_by_policy(self._compiled_policy, text)
        except Exception:  # after any error the text may contain secrets and must not be returned
            return UNREADABLE

    def redact_truncated_text(self, text: str) -> str:
        """Redact a truncated text; a possible start of a secret at its end is removed too."""
        try:
            return redact_by_policy(
                self._compiled_policy,
                text[: find_safe_end(text, self._compiled_policy.forms, self._compiled_policy.find_spans(text))],
            )
        except Exception:  # as above
            return UNREADABLE

    def redact_value(self, value: Any) -> Any:
        """Return a copy of the structure without secrets."""
        return self.redact_and_report(value)[0]

    def redact_and_report(self, value: Any) -> tuple[Any, bool]:
        """Return a copy of the structure without secrets, and whether anything was removed."""
        try:
            walk = _StructureWalk(self._compiled_policy)
            return walk.redact_value(value), walk.changed
        except Exception:  # as above
            return UNREADABLE, True

    def find_spans(self, text: str) -> list[SecretSpan]:
        """The spans that would be masked, in order and without overlaps."""
        return self._compiled_policy.find_spans(text)

    def encoded_forms(self) -> tuple[known_secrets.EncodedForm, ...]:
        return self._compiled_policy.forms


def redact_by_policy(compiled_policy: _CompiledPolicy, text: str) -> str:
    """Redact a text. Returns the same object if nothing was found."""
    if len(text) < compiled_policy.min_length:
        return text
    clean = _redact_until_stable(compiled_policy, text)
    if clean is not text and text.lstrip()[:1] in ("{", "[", '"') and _is_json(text) and not _is_json(clean):
        # The masks made the JSON text invalid, so the parsed structure is redacted instead.
        clean = json.dumps(_StructureWalk(compiled_policy).redact_value(json.loads(text)), ensure_ascii=False)
    return clean


def _redact_until_stable(compiled_policy: _CompiledPolicy, text: str) -> str:
    """Redact until another round finds nothing, so that redacting the result again changes nothing."""
    for _ in range(MAX_ROUNDS):
        spans = compiled_policy.find_spans(text)
        clean = replace_spans(text, spans) if spans else text
        if clean == text:
            return text
        text = clean
    return MASK


class _StructureWalk:
    """One walk through one value. It limits the number of parts and records whether anything changed."""

    def __init__(self, compiled_policy: _CompiledPolicy) -> None:
        self._compiled_policy = compiled_policy
        self._remaining_parts = MAX_PARTS
        self.changed = False

    def redact_value(self, value: Any, depth: int = 1) -> Any:
        if isinstance(value, str):
            return self._redact_text(value)
        if value is None or isinstance(value, NUMBER_TYPES):
            return self._redact_number(value) if self._compiled_policy.numeric else value
        if isinstance(value, CONTAINER_TYPES):
            return self._redact_container(value, depth)
        if isinstance(value, bytes | bytearray):
            return self._redact_text(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return value

    def _redact_number(self, value: Any) -> Any:
        """Mask a number that contains a known secret of digits. The mask is a string, so JSON stays valid."""
        text = str(value)
        if not any(secret in text for secret in self._compiled_policy.numeric):
            return value
        self.changed = True
        return MASK

    def _redact_container(self, value: Any, depth: int) -> Any:
        self._remaining_parts -= len(value)
        if depth > MAX_DEPTH or self._remaining_parts < 0:
            self.changed = True
            return UNREADABLE
        if isinstance(value, Mapping):
            return self._redact_mapping(value, depth)
        return [self.redact_value(item, depth + 1) for item in value]

    def _redact_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        names = self._compiled_policy.names
        for key, item in value.items():
            kinds = names.get(key) if type(key) is str else None
            name, (is_secret_text, is_secret_number) = (key, kinds) if kinds else self._redact_name(key)
            if name in result:
                name = _make_unique_name(name, result)
            if (
                (is_secret_number if isinstance(item, NUMBER_TYPES) else is_secret_text)
                and item is not None
                and not isinstance(item, bool)
            ):
                self.changed = self.changed or item != MASK
                result[name] = MASK
            else:
                result[name] = self.redact_value(item, depth + 1)
        return result

    def _redact_name(self, key: Any) -> tuple[Any, tuple[bool, bool]]:
        """The redacted key, and whether a text and whether a number under this key is a secret."""
        text = str(key)
        clean = self._redact_text(text)
        kinds = classify_name(text) if self._compiled_policy.secrets else (False, False)
        if (
            clean is text
            and len(text) <= MAX_CACHED_NAME_LENGTH
            and len(self._compiled_policy.names) < MAX_CACHED_NAMES
        ):
            self._compiled_policy.names[text] = kinds
        return (key if clean is text else clean), kinds

    def _redact_text(self, text: str) -> str:
        clean = redact_by_policy(self._compiled_policy, text)
        if clean is not text:
            self.changed = self.changed or clean != text
        return clean


def _make_unique_name(name: str, used_names: Mapping[Any, Any]) -> str:
    """Add a number to a name: two names that are equal after redaction must stay different."""
    number = 2
    while f"{name} {number}" in used_names:
        number += 1
    return f"{name} {number}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
