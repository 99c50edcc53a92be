"""Suspending and archiving: access ends in one commit, then every stop step runs; what could not is finished later."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from common import context
from common.errors import InvalidTransition
from common.ids import uuid7
from nhi import hooks
from nhi.access import roles
from nhi.actors import SYSTEM
from nhi.audit import events
from nhi.authorization import authentication
from nhi.celery_tasks import sweep
from nhi.credentials import credentials
from nhi.hooks import StopStep
from nhi.identities import lifecycle
from nhi.models import (
    AuditEvent,
    Credential,
    Identity,
    NhiPermission,
    RoleAssignment,
    ToolPermission,
    UserPermission,
)
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(autouse=True)
def _own_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hooks, "stop_steps", {})
    monkeypatch.setattr(lifecycle, "STEP_SECONDS", 0.5)
    yield


def step(name: str, run: Callable[[Identity], int], count: int = 0) -> None:
    hooks.add_stop_step(StopStep(name, run, lambda some: count * len(some)))


def fresh(identity: Identity) -> Identity:
    return Identity.objects.get(pk=identity.pk)


def test_a_suspension_ends_the_tokens_before_it_answers_and_keeps_them() -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    stopped = lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Leak")
    assert (stopped.identity.state, stopped.pending) == ("suspended", [])
    assert stopped.stopped == {"tokens": 1, "calls": 0, "tasks": 0, "schedules": 0, "executions": 0}
    with pytest.raises(authentication.Unauthenticated) as refused:
        authentication.authenticate(issued.token)
    assert refused.value.reason == "caller_suspended"
    lifecycle.activate(actor=SYSTEM, identity=fresh(bot), reason="Clean again")
    assert authentication.authenticate(issued.token).actor.id == bot.pk


def test_an_archive_revokes_everything_held_and_everything_held_on_it() -> None:
    bot, other, reader = cast.agent(), cast.agent("other"), cast.tool()
    credentials.issue(actor=SYSTEM, holder=bot)
    cast.tool_grant(bot, reader)
    cast.nhi_grant(bot, other)
    cast.nhi_grant(other, bot, "delegate")
    cast.user_grant(bot, cast.user("uma"))
    ended = cast.tool_grant(bot, cast.tool("github__write"), expires_at=cast.future(seconds=5))
    ToolPermission.objects.filter(pk=ended.pk).update(expires_at=cast.past(hours=1))
    role = roles.create(actor=SYSTEM, name="reader", patterns=["github.*"])
    roles.assign(actor=SYSTEM, role=role, identity=bot)
    kept = cast.tool_grant(other, reader)
    lifecycle.deprecate(actor=SYSTEM, identity=bot, reason="Replaced")
    stopped = lifecycle.archive(actor=cast.admin(), identity=fresh(bot), reason="Gone")
    assert stopped.stopped["tokens"] == 1
    for model in (Credential, NhiPermission, UserPermission, RoleAssignment):
        assert not model.objects.live().exists(), model
        assert model.objects.revoked().values_list("revoke_reason", flat=True)[0] == "Archived: Gone"
    assert list(ToolPermission.objects.live()) == [kept]
    assert ToolPermission.objects.get(pk=ended.pk).revoked_at is None
    recorded = cast.events(reason="Archived: Gone")
    assert sorted(recorded) == ["credential.revoked", *["grant.revoked"] * 4, "role.assignment_revoked"]


def test_archiving_a_tool_revokes_the_grants_on_it() -> None:
    reader = cast.tool()
    grants = [cast.tool_grant(cast.agent(f"bot-{number}"), reader) for number in range(3)]
    lifecycle.deprecate(actor=SYSTEM, identity=reader, reason="Replaced")
    lifecycle.archive(actor=SYSTEM, identity=fresh(reader), reason="Gone")
    assert ToolPermission.objects.revoked().count() == len(grants)
    names = set(AuditEvent.objects.filter(event="grant.revoked").values_list("subject_name", flat=True))
    assert names == {f"bot-{number} → github__read" for number in range(3)}


def test_an_archive_that_is_refused_revokes_nothing() -> None:
    bot = cast.agent()
    cast.tool_grant(bot, cast.tool())
    with pytest.raises(InvalidTransition):
        lifecycle.archive(actor=SYSTEM, identity=bot, reason="Too early")
    assert ToolPermission.objects.live().count() == 1


def test_each_step_is_counted_and_runs_after_the_suspension_is_committed() -> None:
    bot = cast.agent()
    seen: list[str] = []
    step("tasks", lambda identity: seen.append(fresh(identity).state) or 3)
    step("schedules", lambda identity: 2, count=2)
    assert lifecycle.consequences(bot) == {"tokens": 0, "calls": 0, "tasks": 0, "schedules": 2, "executions": 0}
    stopped = lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Stop")
    assert seen == ["suspended"]
    assert (stopped.stopped["tasks"], stopped.stopped["schedules"], stopped.pending) == (3, 2, [])
    assert fresh(bot).stop_pending == []


def test_a_failing_step_is_named_undone_and_finished_by_the_sweeper() -> None:
    bot = cast.agent()
    failing = [True]

    def run(identity: Identity) -> int:
        events.write("identity.changed", actor=SYSTEM, subject=identity)
        if failing[0]:
            raise ConnectionError("the broker is away")
        return 1

    step("executions", run)
    step("tasks", lambda identity: 1)
    stopped = lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Stop")
    assert (stopped.pending, stopped.stopped["tasks"]) == (["executions"], 1)
    assert fresh(bot).stop_pending == ["executions"]
    assert "identity.changed" not in cast.events(bot), "a failed step leaves nothing behind"
    assert lifecycle.finish_stops() == 0
    failing[0] = False
    sweep()
    assert fresh(bot).stop_pending == []
    assert cast.events(bot)[-2:] == ["identity.changed", "identity.stop_finished"]
    assert lifecycle.finish_stops() == 0, "a second sweep has nothing left to do"
    assert cast.events(bot).count("identity.stop_finished") == 1


def test_a_slow_step_is_answered_as_pending_and_counts_when_it_ends() -> None:
    bot = cast.agent()
    go_on, ended = threading.Event(), threading.Event()

    def run(_identity: Identity) -> int:
        go_on.wait(10)
        ended.set()
        return 1

    step("executions", run)
    began = time.monotonic()
    stopped = lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Stop")
    assert time.monotonic() - began < 3
    assert (stopped.pending, stopped.identity.state) == (["executions"], "suspended")
    assert fresh(bot).stop_pending == ["executions"]
    go_on.set()
    assert ended.wait(10)
    for thread in threading.enumerate():
        if thread.name.startswith("stop"):
            thread.join(10)
    assert lifecycle.finish_stops() <= 1
    assert fresh(bot).stop_pending == []


def test_who_is_active_again_is_not_stopped_by_an_old_stop() -> None:
    bot = cast.agent()
    runs: list[int] = []

    def run(_identity: Identity) -> int:
        runs.append(1)
        raise ConnectionError

    step("executions", run)
    lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Stop")
    lifecycle.activate(actor=SYSTEM, identity=fresh(bot), reason="A mistake")
    assert lifecycle.finish_stops() == 0
    assert len(runs) == 1


def test_a_step_that_is_not_installed_any_more_is_no_open_end() -> None:
    bot = cast.agent()
    step("executions", lambda _identity: 1 // 0)
    lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Stop")
    hooks.stop_steps.clear()
    assert lifecycle.finish_stops() == 1
    assert lifecycle.finish_stops() == 0
    assert cast.events(bot).count("identity.stop_finished") == 1


def test_what_a_step_records_names_the_request() -> None:
    bot, request = cast.agent(), uuid7()
    step("tasks", lambda identity: bool(events.write("identity.changed", actor=SYSTEM, subject=identity)))
    with context.bind_context(context.RequestContext(request, "192.0.2.9")):
        lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Stop")
    written = AuditEvent.objects.get(subject_id=bot.pk, event="identity.changed")
    assert (written.request_id, written.source) == (request, "192.0.2.9")
