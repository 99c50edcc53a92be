"""What a known caller is told beyond the public card."""

from typing import Any

import pytest

from a2a import card_changes, cards
from common.errors import NotFound
from nhi import actors
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import identities
from nhi.models import Identity, NhiPermission, User
from supervisor.access import Caller
from tests.a2a.cards.reading import fitting, keys, read
from tests.a2a.conftest import Stage
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-04"), pytest.mark.both_databases]
SKILLS = [
    {"skill_id": "summarise", "name": "Summarise"},
    {"skill_id": "internal.audit", "name": "Audit", "public": False},
    {"skill_id": "internal.purge", "name": "Purge", "public": False},
]


def told(who: Identity | User, agent: Identity, version: str = "") -> Any:
    actor = actors.identity(who) if isinstance(who, Identity) else actors.person(who)
    return cards.extended(Caller(actor), agent, version)


def skills(card: Any) -> list[str]:
    return [skill["id"] for skill in card["skills"]]


def allowed(card: Any) -> Any:
    (extension,) = card["capabilities"]["extensions"]
    assert extension["uri"] == cards.GRANT
    return extension.get("params", {})


@pytest.fixture
def agent(stage: Stage) -> Identity:
    card_changes.change(actor=SYSTEM, identity=stage.writer, skills=SKILLS)
    return stage.writer


def test_strangers_are_told_of_public_skills_only(agent: Identity, stage: Stage) -> None:
    identities.change(actor=SYSTEM, identity=agent, discoverable=True)
    assert skills(read().json()) == ["summarise"]
    assert skills(told(cast.agent("another"), agent)) == ["summarise"]
    assert "extensions" not in told(cast.agent("third"), agent)["capabilities"]


def test_a_caller_is_told_what_its_own_grant_lets_it_ask_for(agent: Identity, stage: Stage) -> None:
    assert skills(told(stage.planner, agent)) == ["summarise", "internal.audit", "internal.purge"]
    assert allowed(told(stage.planner, agent)) == {}
    limited, ends = cast.agent("limited"), cast.future(days=3)
    cast.nhi_grant(limited, agent, allowed_actions=["*.audit"], max_calls_per_hour=9, expires_at=ends)
    card = told(limited, agent)
    assert skills(card) == ["summarise", "internal.audit"]
    said = allowed(card)
    assert (said["allowedActions"], said["maxTasksPerHour"]) == (["*.audit"], 9)
    assert said["endsAt"].endswith("Z")


def test_several_grants_count_together(agent: Identity, stage: Stage) -> None:
    caller = cast.agent("both")
    cast.nhi_grant(caller, agent, allowed_actions=["internal.audit"], max_calls_per_hour=1)
    cast.nhi_grant(caller, agent, "delegate", allowed_actions=["internal.purge"], max_calls_per_hour=5)
    said = allowed(told(caller, agent))
    assert said == {"allowedActions": ["internal.audit", "internal.purge"], "maxTasksPerHour": 5}


def test_what_ended_tells_nothing_more(agent: Identity, stage: Stage) -> None:
    grants.revoke(actor=SYSTEM, grant=NhiPermission.objects.get(source=stage.planner), reason="For the test")
    card = told(stage.planner, agent)
    assert skills(card) == ["summarise"]
    assert "extensions" not in card["capabilities"]


def test_people_who_see_the_agent_are_told_all_and_others_nothing(agent: Identity, stage: Stage) -> None:
    assert len(skills(told(stage.mara, agent))) == 3
    for stranger in (cast.user("pat"), cast.agent("another")):
        with pytest.raises(NotFound):
            told(stranger, agent)


def test_it_comes_in_each_version_and_signed(agent: Identity, stage: Stage) -> None:
    card = told(stage.planner, agent, "0.3")
    assert card["protocolVersion"] == "0.3.0"
    assert fitting(card, keys()) == ["t1"]
