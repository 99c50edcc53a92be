"""What a grant is asked, and which fields an invalid one names."""

from typing import Any

import pytest

from common.errors import InvalidInput
from nhi.authorization import facts
from nhi.decisions import engine
from nhi.decisions.types import Decision, RequestedAction
from nhi.models import Identity


def asked(caller: Identity, target: Identity, parameters: Any = None, action: str | None = None) -> Decision:
    loaded = facts.for_question(caller.pk, target.pk)
    return engine.decide(loaded.caller, RequestedAction("call", parameters, action), loaded.target, loaded.facts)


def fields(error: pytest.ExceptionInfo[InvalidInput]) -> set[str]:
    return {field.field for field in error.value.fields}
