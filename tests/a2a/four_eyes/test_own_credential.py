"""An agent with a credential of its own does not lose who asked for its work."""

from typing import Any

import pytest

from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import Identity
from tests.a2a.four_eyes.office import Office, claimed_token
from tests.api.callers import Caller
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-14"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def send(office: Office, target: Identity, *, by: str = "mallory") -> str:
    body = {"target_agent_id": str(target.pk), "task_type": "delete", "input": {"text": "all"}}
    reply = office.person(by).post("a2a/tasks", body)
    assert reply.status == 201, reply.body
    return str(reply.body["task_id"])


def credential(identity: Identity) -> str:
    return credentials.issue(actor=SYSTEM, holder=identity).token


@pytest.mark.parametrize("way", ["task", "run"])
def test_one_hop_further_without_a_parent(office: Office, way: str) -> None:
    bob, carol = office.identity("bobs"), office.agent("carol")
    cast.nhi_grant(bob, carol.identity)
    send(office, bob)
    worker = Caller(credential(bob))
    assert worker.post("a2a/inbox/claim").status == 200
    body: dict[str, Any] = {"target_agent_id": str(carol.identity_id), "task_type": "x", "input": {"text": "all"}}
    if way == "task":
        assert worker.post("a2a/tasks", body).status == 201
    else:
        assert worker.post(f"supervisor/agents/{carol.pk}/execute", {"input": "all"}).status == 202
    assert office.is_barred("mallory", office.waiting_call(claimed_token()))


def test_a_call_that_names_another_open_task(office: Office) -> None:
    bot = office.identity()
    task, other = send(office, bot), send(office, bot, by="oscar")
    token = credential(bot)
    assert Caller(token).post(f"a2a/inbox/{task}/claim", {}).status == 200
    assert office.is_barred("mallory", office.waiting_call(token, task_id=other))


def test_a_task_that_is_read_and_not_claimed(office: Office) -> None:
    bot = office.identity()
    task, token = send(office, bot), credential(bot)
    assert Caller(token).get(f"a2a/tasks/{task}").status == 200
    assert office.is_barred("mallory", office.waiting_call(token))


def test_who_is_barred_is_not_shown_the_exact_arguments(office: Office) -> None:
    secret = "ghp_" + "k3" * 18
    office.execute("mallory", office.agent())
    approval = office.waiting_call(claimed_token(), {"name": secret})
    assert secret not in str(office.person("mallory").get(f"approvals/{approval.pk}").body)
    assert secret in str(office.person("ann").get(f"approvals/{approval.pk}").body)
