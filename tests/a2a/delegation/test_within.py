"""Nobody says that it works on what it does not work on, and nobody takes itself out of its chain."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from a2a import access, cancelling, sending
from common.errors import NotAllowed, NotFound
from common.ids import uuid7
from mcp.gateway.batch import batch_transaction, database
from mcp.gateway.types import CallContext, CallRequest
from nhi import actors
from nhi.credentials import tokens
from nhi.models import InvocationLog
from supervisor import submitting
from supervisor.access import Caller
from tests.a2a.delegation import town
from tests.a2a.delegation.town import Line, line, over_mcp, over_rest, run_for, run_token, send, token_of
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-20"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, agents=[])


class TestTasksThatAreNamed:
    def test_only_ones_own_open_task_is_taken(self, made: Scene) -> None:
        """Another's and one that does not exist are refused alike."""
        asked, other = line(made, ["call"], holds="b"), line(made, ["call"], name="2", holds="b")
        for named in (str(other.tasks[0].pk), str(uuid4())):
            for over in (over_rest, over_mcp):
                assert over(asked.token(asked.last), {}, {"task_id": named}) == "task_not_yours"
            assert asked.row().error_message == f"You work on no task {named}."
        sender = asked.who[0]
        cast.tool_grant(sender, made.tool().identity)
        said = over_rest(asked.token(sender), {}, {"task_id": str(asked.tasks[0].pk)})
        assert said == "task_not_yours", "who sent it does not work on it"

    def test_one_that_has_ended_is_not(self, made: Scene) -> None:
        asked = line(made, ["call"], holds="b")
        token = run_token(asked.last, asked.tasks[0])
        cancelling.end(asked.tasks[0], "stopped", "the test ends it")
        assert asked.calls("rest") == "task_ended"
        assert over_rest(token, {}, {}) == "task_ended", "a run that outlives its task does nothing for it"

    @pytest.mark.parametrize("spelled", ["hex", "urn", "upper"])
    def test_however_it_is_spelled_it_is_the_same_task(self, made: Scene, spelled: str) -> None:
        asked = line(made, ["delegate"], holds="b")
        pk = asked.tasks[0].pk
        named = {"hex": pk.hex, "urn": pk.urn, "upper": str(pk).upper()}[spelled]
        assert asked.calls("rest", task=named) == "chain_no_grant"

    def test_what_is_no_id_is_the_callers_own_word(self, made: Scene) -> None:
        asked = line(made, ["delegate"], holds="b")
        assert asked.calls("rest", task="TICKET-7") == ""
        row = asked.row()
        assert (row.task_id, [link["name"] for link in row.chain]) == ("TICKET-7", ["b"])

    def test_a_run_for_one_task_names_no_other(self, made: Scene) -> None:
        """Else it would be rid of those on whose behalf it acts."""
        asked = line(made, ["delegate"], holds="b")
        stranger = cast.agent("stranger")
        cast.nhi_grant(stranger, asked.last)
        other = send(asked.token(stranger), stranger, asked.last)
        token = run_token(asked.last, asked.tasks[0])
        for over in (over_rest, over_mcp):
            assert over(token, {}, {"task_id": str(other.pk)}) == "task_not_yours"
            assert over(token, {}, {"task_id": str(asked.tasks[0].pk)}) == "chain_no_grant"
        checker = cast.agent("checker")
        cast.nhi_grant(asked.last, checker)
        with pytest.raises(NotFound):
            town.send(token, asked.last, checker, parent=other)

    def test_a_run_without_a_task_names_none_of_its_agents(self, made: Scene) -> None:
        """A task of its agent is somebody else's; only the agent's credential may work on it."""
        asked = line(made, ["delegate"], holds="b")
        token = run_token(asked.last, None)
        assert over_rest(token, {}, {}) == ""
        assert over_rest(token, {}, {"task_id": str(asked.tasks[0].pk)}) == "task_not_yours"


class TestSending:
    def test_what_is_asked_on_anothers_behalf_it_must_be_allowed_to_ask(self, made: Scene) -> None:
        asked = line(made, ["delegate"])
        checker = cast.agent("checker")
        cast.nhi_grant(asked.last, checker)
        for token in (asked.token(asked.last), run_token(asked.last, asked.tasks[0])):
            with pytest.raises(NotAllowed, match="on behalf of a, who may not do it") as refused:
                send(token, asked.last, checker, parent=asked.tasks[0])
            assert refused.value.details["reason"] == "chain_no_grant"
        cast.nhi_grant(asked.who[0], checker)
        sent = send(asked.token(asked.last), asked.last, checker, parent=asked.tasks[0])
        assert (sent.permission_type, sent.behalf, sent.root_id) == ("call", 0, asked.tasks[0].pk)

    def test_its_kinds_of_task_are_those_of_both(self, made: Scene) -> None:
        asked = line(made, ["delegate"])
        checker = cast.agent("checker")
        cast.nhi_grant(asked.last, checker)
        cast.nhi_grant(asked.who[0], checker, allowed_actions=["translate"])
        with pytest.raises(NotAllowed) as refused:
            send(asked.token(asked.last), asked.last, checker, parent=asked.tasks[0])
        assert refused.value.details["reason"] == "chain_not_allowed"

    def test_of_two_grants_the_one_that_gives_less_is_used(self, made: Scene) -> None:
        asked = line(made, ["call"], holds="b")
        cast.nhi_grant(asked.who[0], asked.last, "delegate")
        sent = send(asked.token(asked.who[0]), asked.who[0], asked.last)
        assert (sent.permission_type, sent.behalf) == ("delegate", 1)
        assert asked.calls("rest", task=sent.pk) == "chain_no_grant"

    def test_of_one_whole_only_so_many_parts_are_open(self, made: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = line(made, ["call"])
        checker = cast.agent("checker")
        cast.nhi_grant(asked.last, checker)
        monkeypatch.setattr(access, "MOST_OPEN", 2)
        part = send(asked.token(asked.last), asked.last, checker, parent=asked.tasks[0])
        with pytest.raises(access.QuotaExceeded) as refused:
            send(asked.token(asked.last), asked.last, checker, parent=asked.tasks[0])
        assert refused.value.code == "quota_exceeded"
        cancelling.end(part, "stopped", "the test ends it")
        assert send(asked.token(asked.last), asked.last, checker, parent=asked.tasks[0])

    def test_a_person_lends_no_rights(self, made: Scene) -> None:
        asked = line(made, ["call"], holds="b")
        mara = Caller(actors.person(cast.user("mara", "security-admin")))
        task = sending.send(caller=mara, target=asked.last, wish=sending.Wish(sending.of_input(town.ASKED)))
        assert (task.permission_type, task.behalf) == ("call", 0)
        assert asked.calls("rest", task=task.pk) == ""
        assert [link["name"] for link in asked.row().chain] == ["mara", "b"]


class TestRunsThatAskForRuns:
    """`b` works on a task of `a` in a run, and has an agent run that acts as `c`."""

    @pytest.mark.parametrize("kind, holds, wanted", [
        ("call", "bc", ""), ("delegate", "abc", ""), ("delegate", "bc", "chain_no_grant"),
        ("delegate", "ac", "chain_no_grant"),
    ])  # fmt: skip
    def test_the_chain_goes_on(self, made: Scene, kind: str, holds: str, wanted: str) -> None:
        _, second, run = self.asked(made, kind, holds)
        assert over_rest(token_of(run), {}, {}) == wanted
        row = InvocationLog.objects.get(agent_id=second.pk)
        assert [link["name"] for link in row.chain] == ["a", "b", "c"]
        assert row.run_id == run.pk

    def test_it_asks_only_for_what_both_may(self, made: Scene) -> None:
        with pytest.raises(NotAllowed, match="on behalf of a, who may not do it"):
            self.asked(made, "call", "bc", meets=False)

    def test_it_comes_round_through_no_task(self, made: Scene) -> None:
        asked, second, run = self.asked(made, "call", "")
        cast.nhi_grant(second, asked.who[0])
        with pytest.raises(NotAllowed, match="a is above this in a > b > c"):
            send(token_of(run), second, asked.who[0])

    def asked(self, made: Scene, kind: str, holds: str, *, meets: bool = True) -> Any:
        asked = line(made, ["delegate"], holds=holds.replace("c", ""))
        second = cast.agent("c")
        if "c" in holds:
            cast.tool_grant(second, made.tool().identity)
        cast.nhi_grant(asked.last, second, kind)
        if meets:
            cast.nhi_grant(asked.who[0], second)
        told = Caller(actors.identity(asked.last), tokens.parse(run_token(asked.last, asked.tasks[0])))
        agent = run_for(second, None).agent
        return asked, second, submitting.submit(caller=told, agent=agent, wish=submitting.Wish(input="x")).execution


class TestCost:
    """Counted on SQLite: on PostgreSQL the clerk's statements go past Django's cursors."""

    @pytest.mark.parametrize("way, most", [
        ("plain", 0), ("word", 0), ("run of nobody", 0), ("call", 1), ("delegate", 2), ("run", 2),
    ])  # fmt: skip
    def test_a_call_in_no_task_costs_nothing_more(self, made: Scene, way: str, most: int) -> None:
        asked = line(made, ["call" if way == "call" else "delegate"], holds="ab")
        wishes = [self.wish(made, asked, way) for _ in range(20)]
        before = self.queries([self.wish(made, asked, "plain") for _ in range(20)])
        found = self.queries(wishes)
        assert found - before == (most if not database.is_postgresql() else min(most, 1))

    def queries(self, wishes: list[CallRequest]) -> int:
        with CaptureQueriesContext(connection) as seen:
            answers = batch_transaction.reserve_calls([(wish, {}) for wish in wishes])
        assert not any(hasattr(answer, "reason") for answer in answers.values())
        return len(seen)

    def wish(self, made: Scene, asked: Line, way: str) -> CallRequest:
        token = asked.token(asked.last)
        if way == "run of nobody":
            token = self.tokens.setdefault(way, run_token(asked.last, None))
        if way == "run":
            token = self.tokens.setdefault(way, run_token(asked.last, asked.tasks[0]))
        named = {"word": "TICKET-7", "call": str(asked.tasks[0].pk), "delegate": str(asked.tasks[0].pk)}.get(way, "")
        shown = tokens.parse(token)
        assert shown is not None
        return CallRequest(
            shown, "peer", "echo", {}, request_id=uuid7(), source="127.0.0.1", context=CallContext(task_id=named)
        )  # fmt: skip

    @pytest.fixture(autouse=True)
    def _tokens(self) -> None:
        self.tokens: dict[str, str] = {}
