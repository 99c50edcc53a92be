"""Runs that ask for runs, by the token that each of them has."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from common.errors import NotAllowed
from common.ids import uuid7
from nhi import actors
from nhi.access import grants
from nhi.credentials import tokens
from supervisor import sessions, submitting
from supervisor.access import Caller
from supervisor.models import Agent, Execution
from supervisor.runner import claiming
from supervisor.submitting import Wish
from tests.nhi import cast

pytestmark = [pytest.mark.capability("SUP-11", "SUP-10"), pytest.mark.django_db]


def as_run(run: Execution) -> Caller:
    """Who a run is to those that it asks."""
    identity = run.agent.identity
    [token] = [one.token for one in claiming.claim(runner_id=uuid7(), room=9) if one.run.pk == run.pk]
    return Caller(actors.identity(identity), tokens.parse(token))


def ask(run: Execution, agent: Agent) -> Execution:
    return submitting.submit(caller=as_run(run), agent=agent, wish=Wish(input="x")).execution


def names(run: Execution) -> list[str]:
    return [link["name"] for link in run.context["by"]["chain"]]


def test_a_chain_is_kept_and_does_not_come_round(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    one, two = make_agent(name="one"), make_agent(name="two")
    for source, target in ((one, two), (two, one)):
        grants.give_nhi(
            actor=cast.admin(), source=source.identity, target=target.identity, permission_type="call", reason="Asks"
        )
    first = submit(one)
    second = ask(first, two)
    assert names(second) == ["oscar", "one"], "the person who asked first is the root"
    assert second.context["by"]["parent"] == str(first.pk)
    with pytest.raises(NotAllowed, match="oscar > one > two: it would come round again"):
        ask(second, one)
    assert "run.refused" in cast.events(one)


def test_a_session_is_part_of_the_chain(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    one, talks = make_agent(name="one"), make_agent(name="talks", mode="interactive")
    for source, target in ((one, talks), (talks, one)):
        grants.give_nhi(
            actor=cast.admin(), source=source.identity, target=target.identity, permission_type="call", reason="Asks"
        )
    talk = sessions.open(caller=as_run(submit(one)), agent=talks)
    assert names(talk.execution) == ["oscar", "one"]
    with pytest.raises(NotAllowed, match="oscar > one > talks: it would come round again"):
        ask(talk.execution, one)


def test_a_chain_has_an_end(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    agents = [make_agent(name=f"a{number}") for number in range(6)]
    for source, target in pairwise(agents):
        grants.give_nhi(
            actor=cast.admin(), source=source.identity, target=target.identity, permission_type="call", reason="Asks"
        )
    run = submit(agents[0])
    for agent in agents[1:5]:
        run = ask(run, agent)
    with pytest.raises(NotAllowed, match="as deep as they may ask one another"):
        ask(run, agents[5])


def test_without_a_grant_a_run_asks_for_none(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    one, two = make_agent(name="one"), make_agent(name="two")
    with pytest.raises(NotAllowed, match="has no grant for two"):
        ask(submit(one), two)
