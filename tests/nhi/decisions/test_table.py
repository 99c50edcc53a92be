"""Table, oracle and product agree on every case, on real rows through the one query."""

from collections import Counter

import pytest

from nhi.reasons import REASONS
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


def test_the_oracle_agrees_with_the_table() -> None:
    wrong = [f"{case.case}: {found}" for case in CASES if (found := oracle.expected(case)) != case.expected]
    assert not wrong, "\n".join(wrong)


def test_the_table_is_large_enough_and_leaves_no_reason_out() -> None:
    verdicts = Counter(case.verdict for case in CASES)
    assert len(CASES) >= 300
    assert verdicts["allow"] >= 40
    assert {case.reason for case in CASES} == set(REASONS)
    assert len({case.case for case in CASES}) == len(CASES)


def test_a_reason_allows_or_denies_but_never_both() -> None:
    for case in CASES:
        assert REASONS[case.reason].allows == (case.verdict == "allow"), case.case
        assert REASONS[case.reason].allows or REASONS[case.reason].remedy, case.reason
