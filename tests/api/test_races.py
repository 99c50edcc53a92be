"""Two at once: one wins, the other is told, and nothing is granted twice."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from nhi.models import AuditEvent, Credential, ToolPermission
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage

pytestmark = [pytest.mark.both_databases, pytest.mark.capability("NHI-02", "NHI-04", "NHI-06")]

AT_ONCE = 6
WHY = {"reason": "For the test"}


def at_once(call: Callable[[], Reply]) -> Counter[int]:
    """How many of each status, when several callers call at the same moment over connections of their own."""
    gate = threading.Barrier(AT_ONCE)

    def go(_: int) -> int:
        gate.wait()
        try:
            return call().status
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(go, range(AT_ONCE)))


def post(stage: Stage, path: str, body: object) -> Callable[[], Reply]:
    return lambda: Caller(stage.admin.token).post(path, body)


def test_a_grant_is_given_once(open_stage: Stage) -> None:
    body = {"agent_id": str(open_stage.bot.pk), "tool_id": str(open_stage.read.pk), **WHY}
    assert at_once(post(open_stage, "permissions/tools", body)) == {201: 1, 409: AT_ONCE - 1}
    assert ToolPermission.objects.count() == 1
    assert AuditEvent.objects.filter(event="grant.given").count() == 1


def test_an_identity_is_registered_once(open_stage: Stage) -> None:
    body = {"kind": "agent", "name": "new-bot"}
    assert at_once(post(open_stage, "identities", body)) == {201: 1, 409: AT_ONCE - 1}


def test_two_credentials_are_live_at_most(open_stage: Stage) -> None:
    path = f"identities/{open_stage.bot.pk}/credentials"
    assert at_once(post(open_stage, path, {})) == {201: 1, 409: AT_ONCE - 1}
    assert Credential.objects.live().filter(identity=open_stage.bot).count() == 2


def test_a_credential_is_rotated_once(open_stage: Stage) -> None:
    row = Credential.objects.get(identity=open_stage.bot)
    assert at_once(post(open_stage, f"credentials/{row.pk}/rotate", {})) == {200: 1, 409: AT_ONCE - 1}


@pytest.mark.parametrize("verb", ["suspend", "deactivate"])
def test_a_move_happens_once(open_stage: Stage, verb: str) -> None:
    path = f"identities/{open_stage.bot.pk}/{verb}"
    assert at_once(post(open_stage, path, WHY)) == {200: 1, 409: AT_ONCE - 1}
    moves = AuditEvent.objects.filter(
        subject_id=open_stage.bot.pk, event__in=("identity.suspended", "identity.deactivated")
    )
    assert moves.count() == 1


def test_a_grant_is_revoked_once(open_stage: Stage) -> None:
    body = {"agent_id": str(open_stage.bot.pk), "tool_id": str(open_stage.read.pk), **WHY}
    grant = open_stage.admin.post("permissions/tools", body).body
    path = f"permissions/tools/{grant['id']}/revoke"
    assert at_once(post(open_stage, path, WHY)) == {200: 1, 409: AT_ONCE - 1}


@pytest.mark.capability("NHI-03")
def test_after_the_answer_to_a_suspend_nothing_is_let_in(open_stage: Stage) -> None:
    """Whoever asks after the answer is refused; whoever asks at the same time gets one of the two answers, whole."""
    answered = threading.Event()
    late: list[int] = []

    def ask() -> None:
        try:
            while True:
                was_answered = answered.is_set()
                status = Caller(open_stage.agent.token).get("me").status
                assert status in {200, 401}
                if was_answered:
                    late.append(status)
                    return
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        open_stage.admin.post(f"identities/{open_stage.bot.pk}/suspend", WHY)
        answered.set()
        for one in asking:
            one.result()
    assert late == [401, 401, 401]
