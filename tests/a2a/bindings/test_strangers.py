"""Who shows no credential that holds is told so in the words of the binding, with one reason and one challenge at every
door."""

from typing import Any

import pytest

from nhi.credentials import tokens
from tests.a2a.bindings.conftest import Agent, in_loop
from tests.api.callers import Caller

pytestmark = [pytest.mark.capability("A2A-08")]
CUT = tokens.make_credential_token("agt").token[:-1]
UNKNOWN = tokens.make_credential_token("agt").token
SHOWN = [("", "no_credential"), ("nonsense", "malformed"), (CUT, "malformed"), (UNKNOWN, "credential_unknown")]


def told_by_rest(token: str) -> tuple[str, str, str]:
    """What the REST API says: message, reason, challenge."""
    answer = Caller(token).get("me") if token else Caller().get("me")
    assert answer.status == 401
    return answer.body["message"], answer.body["details"]["reason"], answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize(("token", "reason"), SHOWN, ids=["none", "nonsense", "cut", "unknown"])
def test_a_stranger_hears_the_same_at_every_door(agent: Agent, token: str, reason: str) -> None:
    expected = told_by_rest(token)
    assert expected[1] == reason

    async def whole() -> None:
        rpc = await agent.rpc("GetTask", {"id": "t"}, token=token)
        rest = await agent.rest("GET", "tasks/t", token=token)
        for answer, error in ((rpc, (await rpc.json())["error"]), (rest, (await rest.json())["error"])):
            details: list[dict[str, Any]] = error.get("data") or error["details"]
            assert answer.status == 401
            told = (error["message"], details[0]["metadata"]["reason"], answer.headers["www-authenticate"])
            assert told == expected
            assert details[0]["reason"] == "UNAUTHENTICATED"

    in_loop(whole())
