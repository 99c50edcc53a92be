"""Whoever handles a member of the chain does not decide: the owner, the backup owner and who made a credential."""

from collections.abc import Callable

import pytest

from mcp.models import CallApproval
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import AuditEvent, Identity
from tests.a2a.four_eyes.office import Office, claimed_token
from tests.api.callers import Caller
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-14", "NHI-20"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def owns(office: Office, identity: Identity) -> None:
    Identity.objects.filter(pk=identity.pk).update(owner=cast.user("mallory"))


def stands_in(office: Office, identity: Identity) -> None:
    Identity.objects.filter(pk=identity.pk).update(backup_owner=cast.user("mallory"))


def made_a_credential(office: Office, identity: Identity) -> None:
    answer = office.person("mallory").post(f"identities/{identity.pk}/credentials", {})
    assert answer.status == 201, answer.body


HANDLES: list[Callable[[Office, Identity], None]] = [owns, stands_in, made_a_credential]


def delegated(office: Office, links: tuple[str, ...], *, above: Identity) -> CallApproval:
    """`above` sends a task to the next, which sends another from its run, and so on; the last one calls."""
    sender, token = above, credential(above)
    for name in links:
        agent = office.agent(name)
        cast.nhi_grant(sender, agent.identity, "delegate")
        if sender != above:
            cast.nhi_grant(above, agent.identity, "delegate")
        body = {"target_agent_id": str(agent.identity_id), "task_type": "delete", "input": {"text": "all"}}
        assert Caller(token).post("a2a/tasks", body).status == 201
        sender, token = agent.identity, claimed_token()
    return office.waiting_call(token)


def credential(identity: Identity) -> str:

    return credentials.issue(actor=SYSTEM, holder=identity).token


@pytest.mark.parametrize("handles", HANDLES, ids=lambda handles: handles.__name__)
@pytest.mark.parametrize("links", [("bot",), ("middle", "bot")], ids=["one hop", "two hops"])
def test_who_handles_the_first_of_a_chain_does_not_decide(
    office: Office, handles: Callable[[Office, Identity], None], links: tuple[str, ...]
) -> None:
    """Mallory's agent lends its rights to Bob's, which calls. The approval is about Bob's."""
    first = office.identity("first", owner=cast.user("olga", "operator"))
    office.person("mallory")
    handles(office, first)
    approval = delegated(office, links, above=first)
    assert approval.agent_name == "bot"
    assert office.is_barred("mallory", approval)
    assert office.decide("ann", approval).status == 200
    assert not AuditEvent.objects.filter(details__break_glass=True).exists()


def test_who_owned_it_when_the_call_was_made_or_owns_it_now_is_barred(office: Office) -> None:
    first = office.identity("first")
    office.person("mallory")
    office.person("tom")
    owns(office, first)
    approval = delegated(office, ("bot",), above=first)
    Identity.objects.filter(pk=first.pk).update(owner=cast.user("tom"))
    for name in ("mallory", "tom"):
        assert office.is_barred(name, approval), name
    assert office.decide("ann", approval).status == 200


def test_the_owner_of_an_account_that_asked_does_not_decide(office: Office) -> None:
    """The root of the chain is a service account that runs agents by a console role."""
    office.person("mallory")
    account = cast.service("nightly", owner=cast.user("mallory"))
    cast.nhi_grant(account, office.agent().identity)
    body = {"input": "Delete every repository"}
    asked = Caller(credential(account)).post(f"supervisor/agents/{office.agent().pk}/execute", body)
    assert asked.status == 202, asked.body
    approval = office.waiting_call(claimed_token())
    assert office.is_barred("mallory", approval)
    assert office.decide("ann", approval).status == 200
