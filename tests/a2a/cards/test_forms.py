"""Cards in the form of each version: what strict clients know, and nothing else; no required field is empty."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a.wire import card_checks, cards
from a2a.wire.cards import Facts, Interface, Security, Skill

pytestmark = pytest.mark.capability("A2A-04")
URL = "https://gatehouse.example.com/agents/writer"
JSON_RPC, HTTP = Interface("JSONRPC", URL), Interface("HTTP+JSON", URL)
GRPC = Interface("GRPC", "gatehouse.example.com:8001", tenant="writer")
SKILL = Skill("summarise", "Summarise", "Makes a page of a document.", ["text"])
USUAL: dict[str, Any] = {
    "name": "writer", "description": "Writes.", "version": "1.0.0", "interfaces": [JSON_RPC, HTTP, GRPC],
    "input_modes": ["text/plain"], "output_modes": ["text/plain"], "skills": [SKILL], "streaming": True, "push": True,
    "extended": True, "security": Security(), "secure": True,
}  # fmt: skip
#: By the messages of each version's own definition: a name, and whether it is required.
V1_0 = {
    "name": 1, "description": 1, "supportedInterfaces": 1, "provider": 0, "version": 1, "documentationUrl": 0,
    "capabilities": 1, "securitySchemes": 0, "securityRequirements": 0, "defaultInputModes": 1,
    "defaultOutputModes": 1, "skills": 1, "signatures": 0, "iconUrl": 0,
}  # fmt: skip
V0_3 = {
    "protocolVersion": 1, "name": 1, "description": 1, "url": 1, "preferredTransport": 0, "additionalInterfaces": 0,
    "iconUrl": 0, "provider": 0, "version": 1, "documentationUrl": 0, "capabilities": 1, "securitySchemes": 0,
    "security": 0, "defaultInputModes": 1, "defaultOutputModes": 1, "skills": 1,
    "supportsAuthenticatedExtendedCard": 0, "signatures": 0,
}  # fmt: skip
CAPABILITIES = {V: {"streaming", "pushNotifications", "extensions"} for V in ("1.0", "0.3")}
CAPABILITIES["1.0"] |= {"extendedAgentCard"}

words = st.text(min_size=1, max_size=20)
types = st.lists(st.sampled_from(["text/plain", "image/*", "application/json"]), min_size=1, max_size=3)
skills = st.builds(Skill, words, words, words, st.lists(words, min_size=1), st.lists(words), types | st.just([]))
facts = st.builds(
    Facts,
    name=words, description=words, version=words,
    interfaces=st.lists(st.sampled_from([JSON_RPC, HTTP, GRPC]), min_size=1, max_size=3, unique=True),
    input_modes=types, output_modes=types, skills=st.lists(skills, min_size=1, max_size=3),
    streaming=st.booleans(), push=st.booleans(), extended=st.booleans(),
    security=st.none() | st.just(Security()) | st.just(Security("X-API-Key")),
    provider=st.none() | st.tuples(words, words), documentation_url=st.just("") | words, icon_url=st.just("") | words,
    extensions=st.lists(st.fixed_dictionaries({"uri": words}), max_size=2), secure=st.booleans(),
)  # fmt: skip


def made(**other: Any) -> Facts:
    return Facts(**{**USUAL, **other})


def is_whole(card: dict[str, Any], known: dict[str, int]) -> bool:
    required = {name for name, needed in known.items() if needed}
    return set(card) <= set(known) and all(card.get(name) not in (None, "", [], {}) for name in required)


@given(facts)
def test_strict_forms_hold_what_their_version_knows_and_requires(known: Facts) -> None:
    new, old = cards.strict_1_0(known), cards.strict_0_3(known)
    assert is_whole(new, V1_0)
    assert is_whole(old, V0_3)
    assert set(new["capabilities"]) <= CAPABILITIES["1.0"]
    assert set(old["capabilities"]) <= CAPABILITIES["0.3"]
    for card in (new, old):
        for value in card.values():
            assert value not in ("", [], {}, None)
    assert not [one for one in card_checks.of(new, served=new) if one.severity == "error"]


@given(facts)
def test_the_merged_form_says_to_each_version_what_its_strict_form_says(known: Facts) -> None:
    both = cards.merged(known)
    for strict in (cards.strict_1_0(known), cards.strict_0_3(known)):
        assert includes(both, strict)
    assert set(both) == set(cards.strict_1_0(known)) | set(cards.strict_0_3(known))


def includes(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return all(name in whole and includes(whole[name], value) for name, value in part.items())
    if isinstance(part, str):
        return str(whole).casefold() == part.casefold()  # `Bearer` and `bearer` are one scheme
    return bool(whole == part)


def test_each_way_in_is_told_for_both_versions_and_the_newer_one_first() -> None:
    ways = cards.strict_1_0(made())["supportedInterfaces"]
    told = [(way["protocolVersion"], way["protocolBinding"]) for way in ways]
    assert told == [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")]
    assert ways[2] == {
        "url": "gatehouse.example.com:8001", "protocolBinding": "GRPC", "tenant": "writer", "protocolVersion": "1.0",
    }  # fmt: skip


@pytest.mark.parametrize(("secure", "url"), [(True, "https://"), (False, "http://")])
def test_0_3_writes_grpc_as_its_suite_reads_it(secure: bool, url: str) -> None:
    card = cards.strict_0_3(made(interfaces=[GRPC], secure=secure))
    assert card["url"] == f"{url}gatehouse.example.com:8001"
    assert card["preferredTransport"] == "GRPC"


@pytest.mark.parametrize(
    ("security", "new", "old"),
    [
        (Security(), {"httpAuthSecurityScheme": {"scheme": "Bearer"}}, {"type": "http", "scheme": "bearer"}),
        (
            Security("X-Key"),
            {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            {"type": "apiKey", "in": "header", "name": "X-Key"},
        ),
    ],
)
def test_what_callers_show_is_told_in_each_versions_words(security: Security, new: Any, old: Any) -> None:
    known, name = made(security=security), security.name
    assert cards.strict_1_0(known)["securitySchemes"] == {name: new}
    assert cards.strict_1_0(known)["securityRequirements"] == [{"schemes": {name: {}}}]
    assert cards.strict_0_3(known)["securitySchemes"] == {name: old}
    assert cards.strict_0_3(known)["security"] == [{name: []}]


@pytest.mark.parametrize(
    ("said", "version"), [("1.0", "1.0"), ("1.0.1", "1.0"), (" 0.3 ", "0.3"), ("0.3.0", "0.3"), ("", ""), ("2", "2")]
)
def test_patches_do_not_count(said: str, version: str) -> None:
    assert cards.version_of(said) == version


def test_a_strict_client_would_say_what_is_wrong() -> None:
    card = cards.strict_1_0(made())
    assert not card_checks.of(card, served=card)
    broken = {**card, "description": "", "url": URL, "skills": [{"id": "x", "name": "X", "description": "X"}]}
    found = {(one.severity, one.field) for one in card_checks.of(broken, served=broken)}
    assert found == {("error", "description"), ("error", "url"), ("error", "skills[0].tags")}


@pytest.mark.parametrize(
    ("other", "field", "said"),
    [
        ({"description": "Für alle"}, "description", "unsigned"),
        ({"interfaces": [Interface("JSONRPC", "http://127.0.0.1:8000/agents/x")]}, "supportedInterfaces", "PUBLIC_URL"),
        ({"interfaces": [Interface("JSONRPC", "http://example.com/agents/x")]}, "supportedInterfaces", "encrypted"),
        ({"security": None}, "securitySchemes", "anybody"),
    ],
)
def test_what_works_and_may_surprise_is_a_warning(other: dict[str, Any], field: str, said: str) -> None:
    known = made(**other)
    (one,) = card_checks.of(cards.strict_1_0(known), served=cards.merged(known))
    assert (one.severity, one.field) == ("warning", field)
    assert said in one.said
