"""Properties of every decision: less access never allows more, what breaks denies, matching by two matchers is one."""

import base64
import json
import logging
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common import crypto
from common.ids import uuid7
from nhi.access import roles
from nhi.choices import Kind, State, Verdict
from nhi.credentials import tokens
from nhi.decisions import capabilities, engine, json_schema, types
from nhi.decisions.types import AccessMatch, CallerOrTarget, DecisionFacts, RequestedAction
from nhi.models import Identity, User
from tests.nhi.decisions import oracle

pytestmark = [pytest.mark.capability("NHI-10")]
NOW = datetime(2026, 11, 18, tzinfo=UTC)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}

SEGMENTS = st.sampled_from(["github", "commits", "list", "read", "a", "b", "a_b", "a-b", "x1"])
NAMES = st.lists(SEGMENTS, min_size=2, max_size=4).map(".".join)
PATTERNS = st.one_of(
    NAMES, st.lists(SEGMENTS, min_size=1, max_size=3).map(lambda parts: ".".join([*parts, "*"])), st.just("*.*")
)
PARTIES = st.builds(
    CallerOrTarget,
    id=st.builds(uuid7),
    kind=st.sampled_from([Kind.AGENT.value, Kind.SERVICE_ACCOUNT.value, Kind.TOOL.value]),
    name=st.just("someone"),
    state=st.sampled_from([*State.values, *[State.ACTIVE.value] * 6]),
    expired=st.sampled_from([False, False, False, True]),
    capability=st.one_of(st.none(), NAMES),
)
MATCHES = st.builds(
    AccessMatch,
    kind=st.sampled_from(["grant", "role"]),
    id=st.builds(uuid7),
    name=st.just("by someone"),
    expired=st.sampled_from([False, False, True]),
    revoked=st.sampled_from([False, False, True]),
    allowed_parameters=st.sampled_from([None, None, None, SCHEMA, {"type": "nonsense"}]),
    allowed_actions=st.sampled_from([None, None, None, [], ["read"], ["*"]]),
    max_calls_per_hour=st.sampled_from([None, None, None, 5]),
    requires_approval=st.sampled_from([False, False, False, True]),
)
FACTS = st.builds(
    DecisionFacts,
    decision_id=st.builds(uuid7),
    decided_at=st.just(NOW),
    credential_refusal=st.sampled_from(["", "", "", "", None, "credential_revoked", "token_expired"]),
    scope=st.one_of(st.just(()), st.lists(PATTERNS, max_size=2).map(tuple)),
    matches=st.lists(MATCHES, max_size=4).map(tuple),
)
ACTIONS = st.builds(
    RequestedAction,
    verb=st.sampled_from(["call", "call", "call", "know_itself"]),
    parameters=st.sampled_from([None, {}, {"n": 1}, {"n": 9}]),
    name=st.sampled_from([None, "read", "write"]),
)
ASKED = st.tuples(
    st.one_of(st.none(), PARTIES, PARTIES, PARTIES), ACTIONS, st.one_of(st.none(), PARTIES, PARTIES), FACTS
)
QUESTIONS = ASKED.map(lambda asked: asked if asked[1].verb == "call" else (*asked[:2], None, asked[3]))
Asked = tuple[CallerOrTarget | None, RequestedAction, CallerOrTarget | None, DecisionFacts]


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """What breaks on purpose need not be printed each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("nhi.decisions.engine"), "disabled", True)
        yield


def ended(party: CallerOrTarget | None, how: str) -> CallerOrTarget | None:
    return party and (replace(party, expired=True) if how == "expired" else replace(party, state=how))


def weaker(asked: Asked) -> list[Asked]:
    """The same question after each single loss: a revoke, an end, a stop, a removal, a narrower token."""
    caller, action, target, facts = asked
    losses: list[Asked] = [
        (caller, action, target, replace(facts, credential_refusal=why)) for why in engine.CREDENTIAL_MESSAGES
    ]
    for how in ("expired", *(state for state in State.values if state != State.ACTIVE)):
        losses += [(ended(caller, how), action, target, facts), (caller, action, ended(target, how), facts)]
    losses += [(None, action, target, facts)]
    if facts.scope:
        losses += [(caller, action, target, replace(facts, scope=facts.scope[:1]))]
    else:
        losses += [(caller, action, target, replace(facts, scope=("other.tool",)))]
    for place, match in enumerate(facts.matches):
        rest = (*facts.matches[:place], *facts.matches[place + 1 :])
        changes = (
            replace(match, revoked=True), replace(match, expired=True), replace(match, requires_approval=True),
            replace(match, max_calls_per_hour=1), replace(match, allowed_actions=[]),
            replace(match, allowed_parameters={"not": {}}),
        )  # fmt: skip
        less = [rest, *((*facts.matches[:place], change, *facts.matches[place + 1 :]) for change in changes)]
        losses += [(caller, action, target, replace(facts, matches=matches)) for matches in less]
    return losses


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(QUESTIONS)
def test_no_loss_of_access_turns_a_deny_into_an_allow(asked: Asked) -> None:
    before = engine.decide(*asked)
    broken = any(match.allowed_parameters == {"type": "nonsense"} for match in asked[3].matches)
    if before.allowed:
        return
    for less in weaker(asked):
        # Taking away a grant whose stored limit is broken takes away what made every decision fail.
        assert broken or not engine.decide(*less).allowed, less


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(QUESTIONS)
def test_an_allow_rests_on_what_is_live(asked: Asked) -> None:
    caller, action, target, facts = asked
    decision = engine.decide(*asked)
    assert decision.id == facts.decision_id
    assert decision.reason
    assert decision.message
    if not decision.allowed:
        return
    assert caller is not None
    assert (caller.state, caller.expired) == ("active", False)
    assert not facts.credential_refusal
    if action.verb == "call":
        assert target is not None
        assert (target.state, target.expired) == ("active", False)
        assert decision.match is not None
        assert decision.match.live
        assert decision.match in facts.matches
        assert decision.match.max_calls_per_hour is None
        assert not decision.match.requires_approval


def allowed_question() -> Asked:
    caller = CallerOrTarget(uuid7(), Kind.AGENT, "bot", State.ACTIVE)
    target = CallerOrTarget(uuid7(), Kind.TOOL, "tool", State.ACTIVE, capability="github.read")
    match = AccessMatch("grant", uuid7(), "by mara", allowed_parameters=SCHEMA)
    facts = DecisionFacts(uuid7(), NOW, "", ("github.*",), (match,))
    return caller, RequestedAction("call", {"n": 1}), target, facts


def breaks(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError("broken on purpose")


#: Everything a decision calls on its way.
HELPERS: list[tuple[Any, str]] = [
    (engine, "_decide"),
    (engine, "_choose_match"),
    (engine, "_run_check"),
    (engine, "_match_description"),
    (engine, "CheckResult"),
    (engine, "CheckInput"),
    (json_schema, "find_violations"),
    (json_schema, "_compile_validator"),
    (capabilities, "matches"),
    (capabilities, "prefix"),
]


@pytest.mark.parametrize("name", [name for name, _ in engine.CHECKS])
@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError, RecursionError, MemoryError, TimeoutError])
def test_a_check_that_breaks_denies(name: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_question: engine.CheckInput) -> types.CheckResult:
        raise error

    checks = tuple((each, broken if each == name else check) for each, check in engine.CHECKS)
    assert engine.decide(*allowed_question()).allowed
    monkeypatch.setattr(engine, "CHECKS", checks)
    decision = engine.decide(*allowed_question())
    assert (decision.verdict, decision.reason) == (Verdict.DENY, "decision_failed")
    assert "broken" not in decision.message


@pytest.mark.parametrize("place", range(len(engine.LIMIT_CHECKS)))
def test_a_limit_that_breaks_denies(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = tuple(breaks if number == place else check for number, check in enumerate(engine.LIMIT_CHECKS))
    monkeypatch.setattr(engine, "LIMIT_CHECKS", limits)
    assert engine.decide(*allowed_question()).reason == "decision_failed"


@pytest.mark.parametrize(("module", "name"), HELPERS, ids=[name for _, name in HELPERS])
def test_a_helper_that_breaks_denies(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    json_schema._cached_checker.cache_clear()  # what was compiled before would be used again
    monkeypatch.setattr(module, name, breaks)
    try:
        decision = engine.decide(*allowed_question())
    except RuntimeError:
        assert name == "Question", "only what is built before the guarded part may raise, and that allows nothing"
    else:
        assert not decision.allowed


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c, a, t, f: (replace(c, state="nonsense"), a, t, f),
        lambda c, a, t, f: (replace(c, state=None), a, t, f),
        lambda c, a, t, f: (c, a, replace(t, state=None), f),
        lambda c, a, t, f: (c, a, replace(t, capability=5), f),
        lambda c, a, t, f: (c, replace(a, verb="erase"), None, f),
        lambda c, a, t, f: (c, a, t, replace(f, matches=(None,))),
        lambda c, a, t, f: (c, a, t, replace(f, matches=None)),
        lambda c, a, t, f: (c, a, t, replace(f, scope=(None,))),
        lambda c, a, t, f: (c, a, t, replace(f, credential_refusal="something new")),
        lambda c, a, t, f: (c, replace(a, parameters=object()), t, f),
        lambda c, a, t, f: ("a text", a, t, f),
    ],
)
def test_facts_that_make_no_sense_deny(spoil: Callable[..., Asked]) -> None:
    assert not engine.decide(*spoil(*allowed_question())).allowed


@pytest.mark.capability("NHI-09")
@settings(max_examples=500)
@given(PATTERNS, NAMES)
def test_two_matchers_agree_on_whole_segments(pattern: str, capability: str) -> None:
    assert capabilities.is_pattern(pattern)
    assert capabilities.matches(pattern, capability) == oracle.covers(pattern, capability)


@pytest.mark.capability("NHI-09")
@settings(max_examples=300)
@given(st.text(alphabet="ab.*_-%A\n é", max_size=12))
def test_what_is_a_pattern_is_said_by_the_rule(text: str) -> None:
    parts = text.split(".")
    segments = parts[:-1] if parts[-1] == "*" else parts
    fine = len(parts) >= 2 and all(part and set(part) <= set(string.ascii_lowercase + "_-") for part in segments)
    assert capabilities.is_pattern(text) == (fine or text == "*.*")


@pytest.mark.capability("NHI-09")
@pytest.mark.both_databases
@pytest.mark.django_db
def test_the_database_matches_as_the_matcher_does() -> None:
    names = ["a.b", "a.b.c", "a.bc", "ab.c", "a_b.c", "axb.c", "a-b.c", "a.b.c.d", "b.a", "a.b_c", "a.bxc"]
    patterns = [*names, "*.*", "a.*", "a.b.*", "ab.*", "a_b.*", "a-b.*", "b.*", "a.b.c.*", "a.b_c.*", "axb.*"]
    owner = User.objects.create(username="owner")
    Identity.objects.bulk_create(
        Identity(kind=Kind.TOOL, name=f"t__{name}", capability=name, owner=owner, created_by_name="test")
        for name in names
    )
    for pattern in patterns:
        expected = {name for name in names if oracle.covers(pattern, name)}
        assert set(Identity.objects.covered_by(pattern).values_list("capability", flat=True)) == expected, pattern
        assert set(roles.covered_tools([pattern]).values_list("capability", flat=True)) == expected, pattern


TOKENISH = st.one_of(
    st.text(max_size=80),
    st.text(alphabet=string.ascii_letters + string.digits + "_.-\n\x00é", max_size=120).map(lambda rest: f"nhi_{rest}"),
    st.builds(
        "nhi_{}_{}_{}".format,
        st.sampled_from(["agt", "svc", "usr", "tok", "AGT", ""]),
        st.text(alphabet=string.ascii_letters + string.digits, min_size=14, max_size=18),
        st.text(alphabet=string.ascii_letters + string.digits, min_size=44, max_size=48),
    ),
    st.builds(
        "nhi_tok_{}.{}".format, st.text(alphabet=string.ascii_letters + "_-=", max_size=60), st.text(max_size=44)
    ),
    st.builds("".join, st.lists(st.sampled_from(["nhi_agt_", "A" * 16, "_", "B" * 46, "\ud800", " ", "\n"]))),
)


def signed(body: bytes) -> str:
    text = base64.urlsafe_b64encode(body).decode().rstrip("=")
    mark = base64.urlsafe_b64encode(crypto.sign(tokens.SIGNING_LABEL, text.encode())).decode().rstrip("=")
    return f"nhi_tok_{text}.{mark}"


@pytest.mark.capability("NHI-04")
@pytest.mark.django_db
@settings(max_examples=500)
@given(TOKENISH)
def test_parsing_never_raises_and_never_asks_the_database(text: str) -> None:
    with CaptureQueriesContext(connection) as asked:
        parsed = tokens.parse(text)
    assert len(asked) == 0
    assert parsed is None or tokens.CREDENTIAL_PATTERN.fullmatch(text)


@pytest.mark.capability("NHI-05")
@settings(max_examples=300)
@given(
    st.one_of(
        st.binary(min_size=20, max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["identity_id", "credential_id", "issued", "expires", "scope", "x"]), inner
                )
            ),
        ).map(lambda value: json.dumps(value).encode().ljust(20)),
    )
)
def test_what_we_signed_and_do_not_know_is_no_token(body: bytes) -> None:
    parsed = tokens.parse(signed(body))
    assert parsed is None or isinstance(parsed, tokens.ShortTokenClaims)


@pytest.mark.capability("NHI-05")
def test_a_short_lived_token_says_what_was_minted_and_no_changed_one_is_read() -> None:
    claims = tokens.ShortTokenClaims(uuid7(), uuid7(), 1, 2, "github.*", "https://gatehouse.example", uuid7())
    token = tokens.mint_short_token(claims)
    assert tokens.parse(token) == claims
    for place in range(len("nhi_tok_"), len(token)):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert tokens.parse(changed) is None, place
