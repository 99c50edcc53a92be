"""Reactivating over REST: credentials that may be in other hands go first, in the same commit."""

import pytest

from tests.api.conftest import Stage

pytestmark = [pytest.mark.capability("NHI-03", "NHI-04"), pytest.mark.both_databases]


def test_a_leaked_credential_goes_first(stage: Stage) -> None:
    base = f"identities/{stage.bot.pk}"
    stage.admin.post(f"{base}/suspend", {"reason": "In a public log", "cause": "leak"})
    assert stage.admin.get(base).body["state_cause"] == "leak"
    body = {"reason": "Closed", "revoke_credentials": True}
    reply = stage.admin.post(f"{base}/activate", body)
    assert (reply.status, reply.body["state"], reply.body["state_cause"]) == (200, "active", "")
    assert stage.agent.get("me").is_refused(401, "Unauthorized", "credential_revoked")


def test_without_it_they_work_again(stage: Stage) -> None:
    base = f"identities/{stage.bot.pk}"
    stage.admin.post(f"{base}/suspend", {"reason": "Odd calls"})
    assert stage.admin.post(f"{base}/activate", {"reason": "Fine"}).status == 200
    assert stage.agent.get("me").status == 200


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("suspend", {"reason": "x", "cause": "leaked"}, "cause"),
        ("activate", {"reason": "x", "revoke_credentials": "yes"}, "revoke_credentials"),
        ("activate", {"reason": "x", "cause": "leak"}, "cause"),
    ],
)
def test_what_is_wrong_is_named(stage: Stage, verb: str, body: dict[str, str], field: str) -> None:
    reply = stage.admin.post(f"identities/{stage.bot.pk}/{verb}", body)
    assert reply.is_refused(400, "InvalidParameters")
    assert reply.fields == [field]
