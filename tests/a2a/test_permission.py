"""Who may send what to whom, how often, and at the end of which chain."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from a2a import access
from a2a.models import Task
from nhi import actors
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from tests.a2a.conftest import Stage
from tests.api.callers import ABSENT, Caller, calling
from tests.nhi import cast
from tests.record.limits import LIMIT, flushed, limited

pytestmark = [pytest.mark.capability("A2A-08", "NHI-07"), pytest.mark.both_databases]


def test_an_unknown_agent_and_one_that_was_never_ones_own_look_alike(stage: Stage) -> None:
    forbidden = stage.sends(stage.stranger)
    unknown = stage.sends(stage.stranger, target_agent_id=ABSENT)
    tool = stage.sends(stage.stranger, target_agent_id=str(cast.tool().pk))
    for refused in (forbidden, unknown, tool):
        assert refused.is_refused(404, "NotFound")
        assert refused.body["message"] == unknown.body["message"]
        assert refused.body["details"] == unknown.body["details"]
    assert cast.events(stage.writer, event="task.refused") == ["task.refused"]
    assert not Task.objects.exists()


def test_whoever_may_know_of_an_agent_hears_why(stage: Stage) -> None:
    public = cast.agent("public", discoverable=True)
    assert stage.sends(stage.stranger, target_agent_id=str(public.pk)).is_refused(403, "Unauthorized", "no_grant")
    grants.revoke(actor=SYSTEM, grant=stage.grant, reason="For the test")
    refused = stage.sends()
    assert refused.is_refused(403, "Unauthorized", "grant_revoked")
    assert refused.body["details"]["decision_id"]


def test_an_agent_that_may_not_act_is_sent_nothing(stage: Stage) -> None:
    lifecycle.deactivate(actor=SYSTEM, identity=stage.writer, reason="For the test")
    for caller in (stage.sender, stage.admin):
        assert stage.sends(caller).is_refused(403, "Unauthorized", "target_unusable")


def test_a_grant_allows_the_kinds_of_task_that_it_names(stage: Stage) -> None:
    limited = cast.agent("limited")
    cast.nhi_grant(limited, stage.writer, allowed_actions=["summ*", "translate"])
    caller = calling(limited)
    assert stage.sends(caller, task_type="summarise").status == 201
    assert stage.sends(caller, task_type="translate").status == 201
    assert stage.sends(caller, task_type="delete").is_refused(403, "Unauthorized", "action_not_allowed")


def test_an_hour_of_a_grant_is_counted_exactly(stage: Stage) -> None:
    limited = cast.agent("limited")
    cast.nhi_grant(limited, stage.writer, max_calls_per_hour=2)
    caller = calling(limited)
    assert [stage.sends(caller).status for _ in range(2)] == [201, 201]
    refused = stage.sends(caller)
    assert refused.is_refused(429, "RateLimitExceeded", "quota_exceeded")
    assert 0 < int(refused.headers["Retry-After"]) <= 3600
    Task.objects.update(created_at=F("created_at") - timedelta(hours=1))
    assert stage.sends(caller).status == 201


def test_people_send_to_what_they_own_or_were_given(stage: Stage) -> None:
    pat = cast.user("pat")
    assert stage.sends(calling(pat)).is_refused(404, "NotFound")
    cast.user_grant(stage.writer, pat)
    assert stage.sends(calling(pat)).status == 201
    assert stage.sends(calling(cast.user("olga"))).status == 201
    assert stage.sends(calling(cast.user("ada", "auditor"))).is_refused(403, "Unauthorized", "only_reads")


@pytest.mark.parametrize(
    ("roles", "given", "to_it", "to_any"),
    [
        ((), False, False, False),
        ((), True, True, True),
        (("approver",), False, False, False),
        (("approver",), True, True, True),
        (("operator",), False, True, True),
        (("security-admin",), False, True, True),
        (("auditor",), True, False, False),
        (("auditor", "operator"), True, False, False),
        (("auditor", "security-admin"), True, False, False),
    ],
)
def test_which_people_may_send(stage: Stage, roles: tuple[str, ...], given: bool, to_it: bool, to_any: bool) -> None:
    person = cast.user("pat", *roles)
    if given:
        cast.user_grant(stage.writer, person)
    actor = actors.person(person)
    assert (access.may_send(actor, stage.writer), access.may_send(actor)) == (to_it, to_any)
    assert (stage.sends(calling(person)).status == 201) == to_it


def test_who_only_reads_sends_nothing_whatever_rights_stand_beside_that(stage: Stage) -> None:
    ada = replace(cast.acting("ada", "auditor"), rights=frozenset({actors.READ_ONLY, access.SEND}))
    assert not access.may_send(ada)
    assert not access.may_send(ada, stage.writer)


class TestChains:
    """planner asks writer, writer asks others while it works on that."""

    @pytest.fixture
    def parent(self, stage: Stage) -> str:
        task_id = stage.sent()
        stage.claimed(task_id)
        return task_id

    def asks(self, stage: Stage, target: Any, parent: str, caller: Caller | None = None, **more: Any) -> Any:
        body = {"target_agent_id": str(target.pk), "parent_task_id": parent, **more}
        return stage.sends(caller or stage.worker, **body)

    def test_a_task_within_a_task_goes_on_with_its_chain(self, stage: Stage, parent: str) -> None:
        checker = cast.agent("checker")
        cast.nhi_grant(stage.writer, checker)
        child = self.asks(stage, checker, parent).body["task_id"]
        read = stage.worker.get(f"a2a/tasks/{child}").body
        assert [link["name"] for link in read["chain"]] == ["planner", "writer"]
        assert read["parent_task_id"] == parent

    def test_it_does_not_come_round_again(self, stage: Stage, parent: str) -> None:
        cast.nhi_grant(stage.writer, stage.planner)
        assert self.asks(stage, stage.planner, parent).is_refused(403, "Unauthorized", "chain_cycle")

    def test_it_is_five_deep_at_most(self, stage: Stage, parent: str) -> None:
        callers, above = [stage.writer], parent
        for depth in range(2, 6):
            agent = cast.agent(f"deep-{depth}")
            cast.nhi_grant(callers[-1], agent)
            sent = self.asks(stage, agent, above, calling(callers[-1]))
            assert sent.status == 201
            above, callers = sent.body["task_id"], [*callers, agent]
        last = cast.agent("too-deep")
        cast.nhi_grant(callers[-1], last)
        refused = self.asks(stage, last, above, calling(callers[-1]))
        assert refused.is_refused(403, "Unauthorized", "chain_depth")

    def test_a_parent_is_a_task_that_the_caller_holds(self, stage: Stage, parent: str) -> None:
        """Neither a stranger nor its sender works on it."""
        checker = cast.agent("checker")
        cast.nhi_grant(stage.writer, checker)
        cast.nhi_grant(stage.planner, checker)
        for named, caller in ((ABSENT, None), (parent, stage.sender)):
            refused = self.asks(stage, checker, named, caller)
            assert refused.is_refused(404, "NotFound")
            assert refused.body["message"].startswith(f"You work on no task {named}.")
        stage.sender.post(f"a2a/tasks/{parent}/cancel")
        assert self.asks(stage, checker, parent).is_refused(409, "Conflict", "parent_ended")

    @pytest.mark.capability("A2A-12")
    def test_a_part_has_no_more_time_than_the_whole(self, stage: Stage) -> None:
        checker = cast.agent("checker")
        cast.nhi_grant(stage.writer, checker)
        ends = cast.future(hours=1)
        parent = stage.sent(deadline=ends.isoformat())
        stage.claimed(parent)
        later = self.asks(stage, checker, parent, deadline=(ends + timedelta(minutes=1)).isoformat())
        assert later.is_refused(400, "InvalidParameters")
        assert later.fields == ["deadline"]
        child = self.asks(stage, checker, parent).body["task_id"]
        assert Task.objects.get(pk=child).deadline == ends

    @pytest.mark.capability("A2A-12")
    def test_it_is_cancelled_with_its_parent(self, stage: Stage, parent: str) -> None:
        checker = cast.agent("checker")
        cast.nhi_grant(stage.writer, checker)
        child = self.asks(stage, checker, parent).body["task_id"]
        stage.sender.post(f"a2a/tasks/{parent}/cancel")
        read = stage.worker.get(f"a2a/tasks/{child}").body
        assert (read["state"], read["error_code"]) == ("cancelled", "parent_cancelled")


@pytest.mark.capability("AUD-02")
def test_refusals_in_a_loop_are_counted(stage: Stage) -> None:
    with limited():
        for _ in range(LIMIT + 4):
            assert stage.sends(stage.stranger).is_refused(404, "NotFound")
        assert cast.events(stage.writer, event="task.refused") == ["task.refused"] * LIMIT
        counted = flushed("task.refused")
    assert (counted.details["count"], counted.subject_id, counted.reason) == (4, stage.writer.pk, "no_grant")
