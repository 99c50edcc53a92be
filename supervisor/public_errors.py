"""Why a run failed, as identities may read it.

Whoever asked for a run may be an agent. It gets the program's own words and Gatehouse's plain sentences, but nothing
that describes this machine: paths, names of settings, addresses. People read those on the run's page.
"""

import re
from typing import Any

from supervisor.choices import ErrorCategory, Kind
from supervisor.models import Execution

#: Causes that lie outside of the program: it could not be started, or what it needs could not be reached.
_OUTSIDE = frozenset({ErrorCategory.PERMANENT, ErrorCategory.TRANSIENT, ErrorCategory.SYSTEM_ERROR})
#: A path, the name of a setting or variable, a URL or an IPv4 address.
_OPERATOR_TEXT = re.compile(r"/|\b[A-Z]+(?:_[A-Z]+)+\b|\b\d{1,3}(?:\.\d{1,3}){3}\b")


def of_run(run: Execution) -> str:
    return of_failure(run, run)


def of_failure(run: Execution, failure: Any) -> str:
    """The message of the run, or of one of its attempts that failed."""
    message = str(failure.error_message)
    return public_sentence(run, failure) if is_for_operators(run, failure, message) else message


def is_for_operators(run: Execution, failure: Any, message: str) -> bool:
    """Whether the text describes this machine. What a program printed before it ended is its own."""
    if failure.error_category not in _OUTSIDE:
        return False
    if _is_model(run):
        return True
    printed = failure.exit_code is not None and failure.error_category != ErrorCategory.PERMANENT
    return not printed and _OPERATOR_TEXT.search(message) is not None


def public_sentence(run: Execution, failure: Any) -> str:
    if _is_model(run):
        what = f"The model behind {run.agent_name} gave no answer."
    elif failure.error_category == ErrorCategory.PERMANENT:
        what = f"What does the tasks of {run.agent_name} cannot be started here."
    else:
        what = f"Gatehouse could not carry out this run of {run.agent_name}."
    return f"{what} An operator finds the cause at the run {run}."


def of_transition(run: Execution, reason: str) -> str:
    """Why the run moved; a failure is described as in the run itself."""
    failures: list[Any] = [run, *run.attempts.all()]
    for failure in failures:
        message = str(failure.error_message)
        if message and reason.startswith(message) and is_for_operators(run, failure, message):
            return public_sentence(run, failure)
    return reason


def _is_model(run: Execution) -> bool:
    kind: str | None = getattr(run, "agent_kind", None)  # annotated where many runs are read
    return (run.agent.kind if kind is None else kind) == Kind.MODEL
