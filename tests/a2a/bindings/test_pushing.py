"""Who asks for it is told of every event of a task, in their order, in the way that they asked for."""

import json
from typing import Any

import pytest

from a2a import delivering
from a2a.choices import DeliveryState, TaskState, Trouble
from a2a.models import Delivery, PushConfig
from nhi.models import AuditEvent
from tests.a2a.bindings.conftest import AT_ONCE, Agent, in_loop, says
from tests.a2a.callbacks.conftest import make_due, make_receiver, receiver  # noqa: F401 - fixtures
from tests.a2a.callbacks.receiver import Receiver

pytestmark = [pytest.mark.capability("A2A-03", "A2A-06"), pytest.mark.both_databases]


def asked(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "token": "T-1", "authentication": {"scheme": "Bearer", "credentials": "s3cret"}, **more}


def sent(agent: Agent, config: dict[str, Any] | None = None) -> str:
    how = {**AT_ONCE["configuration"], **({"taskPushNotificationConfig": config} if config else {})}
    return str(in_loop(agent.call("SendMessage", {**AT_ONCE, "configuration": how}))["task"]["id"])


def test_every_event_is_told_in_order(agent: Agent, receiver: Receiver) -> None:  # noqa: F811 - a fixture
    task_id = sent(agent, asked(receiver.url("/events"), id="mine"))
    says(task_id, TaskState.WORKING)
    says(task_id, TaskState.COMPLETED)
    receiver.statuses = [500, 204]
    delivering.deliver_due()
    # What failed is told first, and what follows waits for that.
    assert [hit.headers["x-a2a-event-seq"] for hit in receiver.hits] == ["2"]
    for row in Delivery.objects.filter(state=DeliveryState.PENDING):
        make_due(row)
    delivering.deliver_due()
    assert [hit.headers["x-a2a-event-seq"] for hit in receiver.hits] == ["2", "2", "3"]
    assert [json.loads(hit.body)["statusUpdate"]["status"]["state"] for hit in receiver.hits[1:]] == [
        "TASK_STATE_WORKING", "TASK_STATE_COMPLETED",
    ]  # fmt: skip
    last = receiver.hits[-1].headers
    assert (last["authorization"], last["x-a2a-notification-token"]) == ("Bearer s3cret", "T-1")
    assert receiver.hits[1].id == receiver.hits[0].id != receiver.hits[2].id


def test_the_record_says_where_to_and_not_what_the_receiver_knows_us_by(agent: Agent, receiver: Receiver) -> None:  # noqa: F811 - a fixture
    sent(agent, asked(receiver.url("/events?key=only-ours"), id="mine"))
    made = AuditEvent.objects.get(event="push_config.made")
    assert made.details == {"config": "mine", "url": receiver.url("/events")}


def test_receivers_are_kept_replaced_listed_and_taken_away(agent: Agent, receiver: Receiver) -> None:  # noqa: F811 - a fixture
    task_id = sent(agent)

    async def whole() -> None:
        made = await agent.call(
            "CreateTaskPushNotificationConfig", {"taskId": task_id, **asked(receiver.url("/a"), id="x")}
        )
        assert made == {"taskId": task_id, **asked(receiver.url("/a"), id="x")}
        again = {"taskId": task_id, "id": "x", "url": receiver.url("/b")}
        assert await agent.call("CreateTaskPushNotificationConfig", again) == again
        assert await agent.call("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "x"}) == again
        other = await agent.rest("POST", f"tasks/{task_id}/pushNotificationConfigs", {"url": receiver.url("/c")})
        assert (await other.json())["id"]
        listed = await (await agent.rest("GET", f"tasks/{task_id}/pushNotificationConfigs")).json()
        assert ([one["url"] for one in listed["configs"]], listed["nextPageToken"]) == (
            [receiver.url("/b"), receiver.url("/c")], "",
        )  # fmt: skip
        for _ in range(2):
            gone = await agent.rest("DELETE", f"tasks/{task_id}/pushNotificationConfigs/x")
            assert (gone.status, await gone.json()) == (200, {})
        assert await agent.fault("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "x"}) == (200, -32001)
        # To nobody else is there such a task, though its agent works on it.
        agent.token = agent.stage.worker.token
        assert await agent.fault("ListTaskPushNotificationConfigs", {"taskId": task_id}) == (200, -32001)

    in_loop(whole())
    assert "s3cret" not in "".join(PushConfig.objects.values_list("sealed", flat=True))


def test_what_was_taken_away_is_told_nothing_more(agent: Agent, receiver: Receiver) -> None:  # noqa: F811 - a fixture
    task_id = sent(agent, asked(receiver.url(), id="x"))
    says(task_id, TaskState.WORKING)
    in_loop(agent.call("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "x"}))
    says(task_id, TaskState.COMPLETED)
    delivering.deliver_due()
    assert receiver.hits == []
    [row] = Delivery.objects.all()
    assert (row.state, row.reason) == (DeliveryState.DISABLED, Trouble.WITHDRAWN)


@pytest.mark.parametrize("url", ["http://hooks.example.com/x", "https://10.0.0.7/x", "https://u:p@example.com/x", "x"])
def test_a_receiver_where_gatehouse_does_not_call_is_refused(agent: Agent, url: str) -> None:
    task_id = sent(agent)

    async def whole() -> None:
        told = await (await agent.rpc("CreateTaskPushNotificationConfig", {"taskId": task_id, "url": url})).json()
        assert told["error"]["code"] == -32602
        assert [one["field"] for one in told["error"]["data"][1]["fieldViolations"]] == ["url"]
        how = {"returnImmediately": True, "taskPushNotificationConfig": {"url": url}}
        assert await agent.fault("SendMessage", {**AT_ONCE, "configuration": how}) == (200, -32602)

    in_loop(whole())
