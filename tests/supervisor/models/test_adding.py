"""Models that are added and changed: what is refused, and that a key is given to one place alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from common.errors import InvalidInput
from supervisor import agents
from supervisor.models import Agent
from supervisor.submitting import Wish, check
from tests.api.conftest import Stage, set_stage
from tests.nhi import cast
from tests.supervisor.models.conftest import KEY
from tests.supervisor.models.endpoint import Model

pytestmark = [pytest.mark.capability("SUP-13"), pytest.mark.django_db(transaction=True)]
Make = Callable[..., Agent]


@pytest.fixture
def stage(transactional_db: None) -> Stage:
    return set_stage()


def refused(work: Callable[[], object]) -> list[str]:
    with pytest.raises(InvalidInput) as found:
        work()
    return [problem.field for problem in found.value.fields]


def test_what_no_model_can_be_is_refused_by_its_field(make_model: Make) -> None:
    identity = cast.agent("thinker")
    wrong: list[tuple[str, Any]] = [
        ("base_url", "https://10.0.0.7/v1"), ("base_url", "file:///etc/passwd"), ("base_url", ""), ("model", ""),
        ("instructions", "x" * 70_000), ("max_steps", 0), ("max_steps", 201), ("mode", "interactive"),
        ("executable_path", "/bin/true"), ("name", "n" * 95), ("allowed_env_vars", ["TONE"]),
    ]  # fmt: skip
    for field, value in wrong:
        assert refused(partial(make_model, identity=identity, **{field: value})) == [field]
    assert not Agent.objects.exists()


def test_what_no_header_can_hold_or_nothing_can_hide_is_no_key(make_model: Make) -> None:
    identity = cast.agent("thinker")
    for key in ("short", "two words are none", "line\nend-of-it", "schlüssel-2026", "k" * 8001):
        assert refused(partial(make_model, identity=identity, key=key)) == ["api_key"], key


def test_a_key_stays_with_the_place_that_it_was_given_for(make_model: Make, model: Model, settings: Any) -> None:
    settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {"localhost:9"}
    mara, agent = cast.admin(), make_model()
    moved = agents.change(actor=mara, agent=agent, base_url=f"{model.base_url}/beside")
    assert agents.key(moved) == KEY
    elsewhere = "http://localhost:9/v1"
    assert refused(lambda: agents.change(actor=mara, agent=agent, base_url=elsewhere)) == ["api_key"]
    moved = agents.change(actor=mara, agent=agent, base_url=elsewhere, api_key="sk-another-one")
    assert agents.key(moved) == "sk-another-one"
    assert cast.events(agent) == ["agent.added", "agent.changed", "agent.changed", "agent.key_set"]
    assert agents.key(agents.change(actor=mara, agent=agent, api_key="")) == ""


def test_a_run_of_a_model_works_in_no_directory(make_model: Make) -> None:
    agent = make_model()
    assert "working_directory" in refused(lambda: check(agent, Wish(input="Go", working_directory="/tmp")))


def test_by_the_api_a_model_is_added_and_its_key_never_given_back(stage: Stage, model: Model) -> None:
    body = {
        "identity_id": str(stage.bot.pk), "name": "team/thinker", "kind": "model", "base_url": model.base_url,
        "model": "small-1", "instructions": "Be brief.", "api_key": KEY, "max_steps": 5,
    }  # fmt: skip
    made = stage.admin.post("supervisor/agents", body)
    assert made.status == 201
    said = {name: made.body[name] for name in ("kind", "base_url", "model", "instructions", "max_steps")}
    assert said == {name: body[name] for name in said}
    changed = stage.admin.patch(f"supervisor/agents/{made.body['id']}", {"api_key": "sk-another-one", "max_steps": 6})
    assert (changed.status, changed.body["max_steps"]) == (200, 6)
    for shown in (made, changed, stage.admin.get("supervisor/agents")):
        assert KEY not in str(shown.body) and "sk-another-one" not in str(shown.body)
    assert agents.key(Agent.objects.get(name="team/thinker")) == "sk-another-one"
