"""What a grant is asked, and which fields an invalid one names."""

from typing import Any

import pytest

from common.errors import InvalidInput
from nhi import decisions, facts
from nhi.models import Identity
from nhi.terms import Action, Decision


def asked(caller: Identity, target: Identity, parameters: Any = None, action: str | None = None) -> Decision:
    loaded = facts.for_question(caller.pk, target.pk)
    return decisions.decide(loaded.caller, Action("call", parameters, action), loaded.target, loaded.facts)


def fields(error: pytest.ExceptionInfo[InvalidInput]) -> set[str]:
    return {field.field for field in error.value.fields}
