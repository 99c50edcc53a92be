"""Why a run failed: people read all of it, identities nothing that describes this machine."""

from collections.abc import Callable
from typing import Any

import pytest

from nhi.choices import PermissionType
from supervisor.models import Agent, Attempt, Execution, ExecutionTransition
from tests.api.conftest import Stage
from tests.nhi import cast

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.capability("NHI-10", "SUP-09")]
LISTED = "/srv/agents/run is not in the file that EXECUTABLE_ALLOWLIST names."
#: What failed, with which category and exit code; and whether an identity reads it as it is.
FAILURES: list[tuple[str, str, int | None, bool]] = [
    (LISTED, "Permanent", None, False),
    ("sh: /opt/agent: not found", "Permanent", 127, False),
    ("Its command line wants the parameter tone, which the run was not given.", "Permanent", None, True),
    ("The program /srv/agents/run could not be started: Too many open files.", "Transient", None, False),
    ("No connection to 10.0.0.7.", "SystemError", None, False),
    ("The worker was stopped, and what it ran with it.", "SystemError", None, True),
    ("Exit code 1. KeyError in /srv/agents/run", "AgentError", 1, True),
    ("Exit code 75. connection refused", "Transient", 75, True),
    ("It did not end within 1 s.", "AgentError", None, True),
]


@pytest.mark.parametrize(("message", "category", "exit_code", "as_it_is"), FAILURES)
def test_an_identity_reads_no_operators_text(
    stage: Stage, echo: Agent, submit: Callable[..., Execution], message: str, category: str, exit_code: int | None,
    as_it_is: bool,
) -> None:  # fmt: skip
    run = submit(echo, "hello")
    failed = {"exit_code": exit_code, "error_category": category, "error_message": message}
    Execution.objects.filter(pk=run.pk).update(state="idle", status="failure", **failed)
    Attempt.objects.create(execution=run, attempt=1, end_time=run.created_at, **failed)
    ExecutionTransition.objects.create(
        execution=run, seq=99, from_state="queued", to_state="failed", at=run.created_at, reason=f"{message} More."
    )
    for reader, reads_all in ((stage.agent, as_it_is), (stage.admin, True)):
        body = reader.get(f"supervisor/executions/{run.pk}").body
        listed = reader.get("supervisor/executions").body["executions"][0]
        texts = {
            body["error_message"], listed["error_message"], body["result"]["error"],
            body["previous_retries"][0]["error_message"],
        }  # fmt: skip
        moves = [move["reason"] for move in body["state_transitions"]]
        assert len(texts) == 1, texts
        assert (texts == {message}) == reads_all, texts
        assert (f"{message} More." in moves) == reads_all, moves
        assert ("EXECUTABLE_ALLOWLIST" in str(body)) == (reads_all and message == LISTED)


def test_a_model_that_gives_no_answer_tells_identities_no_place(
    stage: Stage, echo: Agent, submit: Callable[..., Execution]
) -> None:
    run = submit(echo)
    message = "No connection to the endpoint: llm.internal refused."
    Execution.objects.filter(pk=run.pk).update(
        state="idle", status="failure", error_category="Transient", error_message=message
    )
    Agent.objects.filter(pk=echo.pk).update(kind="model", base_url="https://llm.internal/v1")
    assert "llm.internal" not in str(stage.agent.get(f"supervisor/executions/{run.pk}").body)
    assert stage.admin.get(f"supervisor/executions/{run.pk}").body["error_message"] == message


def test_a_directory_that_is_not_allowed_names_the_setting_to_people_alone(
    stage: Stage, make_agent: Callable[..., Agent], shared_directory: Any
) -> None:
    agent = make_agent(name="other", identity=stage.other)
    cast.nhi_grant(stage.bot, stage.other, PermissionType.CALL)
    asked = {"input": "x", "working_directory": "/etc"}
    for_agent, for_person = (
        caller.post(f"supervisor/agents/{agent.pk}/execute", asked) for caller in (stage.agent, stage.admin)
    )
    assert for_agent.is_refused(400, "InvalidParameters")
    assert for_agent.fields == for_person.fields == ["working_directory"]
    assert "WORKDIR_ALLOWLIST" in str(for_person.body)
    assert "WORKDIR_ALLOWLIST" not in str(for_agent.body)
