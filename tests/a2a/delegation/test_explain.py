"""Why somebody may or may not, within a task: asked by people over the console and the API, and by identities."""

from uuid import uuid4

import pytest
from django.test import Client

from tests.a2a.delegation.town import Line, line, over_rest, run_token
from tests.api.callers import Caller, calling
from tests.mcp.peer import Peer
from tests.mcp.scene import scene
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-20"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def asked(server: Peer) -> Line:
    """`a` delegates to `b`, who alone has the tool."""
    return line(scene(server.url, agents=[]), ["delegate"], holds="b")


def question(asked: Line, **more: object) -> dict[str, object]:
    tool = asked.scene.tool().pk
    return {"caller_id": str(asked.last.pk), "target_id": str(tool), "task_id": str(asked.tasks[0].pk), **more}


def test_people_see_the_chains_check_in_its_place(asked: Line) -> None:
    told = calling(cast.user("mara")).post("decisions/explain", question(asked)).body
    assert (told["decision"], told["reason"], told["decided_by"]["name"]) == ("deny", "chain_no_grant", "chain")
    names = [check["check"] for check in told["checks"]]
    assert names.index("definition") < names.index("chain") < names.index("arguments")
    assert told["would_pass"] == ["Give each of those on whose behalf b acts access to peer__echo, too."]
    cast.tool_grant(asked.who[0], asked.scene.tool().identity)
    told = calling(cast.user("mara")).post("decisions/explain", question(asked)).body
    assert (told["decision"], told["reason"]) == ("allow", "granted")
    chain = next(check for check in told["checks"] if check["check"] == "chain")
    assert (chain["verdict"], chain["message"]) == ("pass", "a, on whose behalf this is done, may do it too.")


def test_without_a_task_nobody_stands_behind_it(asked: Line) -> None:
    told = calling(cast.user("mara")).post("decisions/explain", {**question(asked), "task_id": None})
    assert told.status == 400
    given = question(asked)
    del given["task_id"]
    told = calling(cast.user("mara")).post("decisions/explain", given).body
    assert told["decision"] == "allow"
    assert next(check for check in told["checks"] if check["check"] == "chain")["verdict"] == "skip"


def test_a_task_that_one_may_not_see_is_as_one_that_is_not_there(asked: Line) -> None:
    """Else its chain would be told to whoever knows its id."""
    pat = cast.user("pat")
    cast.user_grant(asked.last, pat, "use")
    cast.user_grant(asked.scene.tool().identity, pat, "use")
    for named in (asked.tasks[0].pk, uuid4()):
        told = calling(pat).post("decisions/explain", question(asked, task_id=str(named))).body
        assert told["reason"] == "task_not_yours"
        assert [check["message"] for check in told["checks"] if check["check"] == "chain"] == [
            f"You work on no task {named}."
        ]


def test_an_identity_asks_within_its_task_and_a_run_need_not_say_so(asked: Line) -> None:
    wish = {"target_id": str(asked.scene.tool().pk)}
    own = Caller(asked.token(asked.last))
    assert own.post("decisions/check", wish).body["reason"] == "granted"
    within = {**wish, "task_id": str(asked.tasks[0].pk)}
    assert own.post("decisions/check", within).body["reason"] == "chain_no_grant"
    token = run_token(asked.last, asked.tasks[0])
    assert Caller(token).post("decisions/check", wish).body["reason"] == over_rest(token, {}, {}) == "chain_no_grant"


def test_the_page_asks_within_a_task(asked: Line, client: Client) -> None:
    client.force_login(cast.user("mara"))
    asks = {"caller": str(asked.last.pk), "target": str(asked.scene.tool().pk), "task": str(asked.tasks[0].pk)}
    page = client.get("/admin/explain/", asks)
    assert page.status_code == 200
    text = page.content.decode()
    assert "Everybody on whose behalf it is asked may, too" in text
    assert "chain_no_grant" in text
    assert f"task={asked.tasks[0].pk}" in text, "the link to copy asks the same"


@pytest.mark.capability("NHI-07")
def test_between_agents_it_tells_of_the_circle_and_of_the_hour(asked: Line) -> None:
    first, last = asked.who
    cast.nhi_grant(last, first)
    mara = calling(cast.user("mara"))
    circle = {"caller_id": str(last.pk), "target_id": str(first.pk), "task_id": str(asked.tasks[0].pk)}
    assert mara.post("decisions/explain", circle).body["reason"] == "chain_cycle"
    other = cast.agent("other")
    cast.nhi_grant(last, other, max_calls_per_hour=3)
    told = mara.post("decisions/explain", {"caller_id": str(last.pk), "target_id": str(other.pk)}).body
    assert told["decision"] == "allow"
    budget = next(check for check in told["checks"] if check["check"] == "budget")
    assert budget["message"] == "0 of 3 tasks of this hour are sent."
