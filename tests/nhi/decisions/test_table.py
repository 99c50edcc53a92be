"""Table, oracle and product agree on every case, on real rows through the one query."""

from collections import Counter

import pytest

from nhi.actors import SYSTEM
from nhi.authorization import explain
from nhi.choices import Kind
from nhi.decisions import engine
from nhi.decisions.reasons import ACCESS_REASONS
from nhi.models import Identity
from tests.mcp.behind import stand_behind_a_server
from tests.nhi.decisions import oracle, stage, table

pytestmark = [pytest.mark.capability("NHI-10"), pytest.mark.both_databases]
CASES = table.read()


@pytest.mark.capability("NHI-02", "NHI-04", "NHI-05", "NHI-06", "NHI-07", "NHI-09")
@pytest.mark.django_db
def test_every_case_is_decided_as_the_table_says() -> None:
    staged = stage.stage(CASES)
    wrong = [
        f"{each.case.case}: {found}, not {each.case.expected}"
        for each in staged
        if (found := stage.answer(each.decide())) != each.case.expected
    ]
    assert not wrong, "\n".join(wrong)


def as_explained(case: table.Case) -> tuple[str, str]:
    """What nothing but a higher app can enforce is enforced where explain is asked: with a server behind each tool, and
    the app of tasks, which counts the hour between agents."""
    tool, limits = case.target.startswith("tool"), case.limited.get("tool", {})
    if case.reason == "not_enforceable_yet" and case.decided_by == "budget":
        return "allow", "granted"
    if case.reason == "not_enforceable_yet" and tool:
        return "deny", "approval_required"
    if case.reason == "role" and tool and limits.get("per_hour"):
        return "allow", "granted"
    return case.verdict, case.reason


@pytest.mark.django_db
def test_explain_says_the_same_and_shows_every_check() -> None:
    """What it is asked for a caller with a live credential; whether a broken limit denies is not its to show."""
    plain = [case for case in CASES if (case.credential, case.token, case.verb) == ("live", "", "call") and case.called]
    staged = stage.stage(plain)
    tools = Identity.objects.filter(kind=Kind.TOOL, pk__in=[each.target_id for each in staged])
    stand_behind_a_server(tools)
    for each in staged:
        case = each.case
        told = explain.explain(
            actor=SYSTEM, caller_id=each.caller_id, target_id=each.target_id, parameters=case.arguments,
            action=case.action or None,
        )  # fmt: skip
        verdict, reason = as_explained(case)
        assert (told.decision.verdict, told.decision.reason) == (verdict, reason), case.case
        if case.reason == "decision_failed":
            continue
        assert [check.name for check in told.checks] == [name for name, _ in engine.CHECKS]
        failed = [check for check in told.checks if check.outcome == "fail"]
        assert bool(failed) == bool(told.would_pass) == (verdict == "deny"), case.case
        assert all(check.message for check in told.checks)
        assert not [sentence for sentence in told.would_pass if "{" in sentence]


def test_the_oracle_agrees_with_the_table() -> None:
    wrong = [f"{case.case}: {found}" for case in CASES if (found := oracle.expected(case)) != case.expected]
    assert not wrong, "\n".join(wrong)


def test_the_table_is_large_enough_and_leaves_no_reason_out() -> None:
    verdicts = Counter(case.verdict for case in CASES)
    assert len(CASES) >= 300
    assert verdicts["allow"] >= 40
    assert {case.reason for case in CASES} == set(ACCESS_REASONS)
    assert len({case.case for case in CASES}) == len(CASES)


def test_a_reason_allows_or_denies_but_never_both() -> None:
    for case in CASES:
        assert ACCESS_REASONS[case.reason].allows == (case.verdict == "allow"), case.case
        assert ACCESS_REASONS[case.reason].allows or ACCESS_REASONS[case.reason].remedy, case.reason
