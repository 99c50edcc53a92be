"""Giving access from an agent's page to another agent, beside tools; and what its badge counts."""

import pytest
from django.test import Client

from nhi.models import NhiPermission
from tests.console.conftest import SignedIn, hub

pytestmark = [pytest.mark.capability("NHI-07", "CON-05"), pytest.mark.django_db]
GIVEN = {"what": "agent", "agent": "writer", "may": "call", "ends": "30", "reason": "Trial", "seen": ""}


def access_badge(client: Client, name: str) -> int:
    tabs = client.get(hub(name)).context["tabs"]
    return next(int(tab.count or 0) for tab in tabs if tab.label == "Access")


def test_another_agent_is_given_from_an_agents_page_and_counted(mara: Client) -> None:
    before = access_badge(mara, "triage-bot"), access_badge(mara, "writer")
    foreseen = mara.post(hub("triage-bot", "give/preview/"), GIVEN).content.decode()
    assert "Adds 1 grant: from triage-bot to writer." in foreseen
    done = mara.post(hub("triage-bot", "give/"), {**GIVEN, "tasks_per_hour": "5", "actions": "draft\nrelease.*\n"})
    assert (done.status_code, done["Location"]) == (302, hub("triage-bot", "access/"))
    grant = NhiPermission.objects.get(source__name="triage-bot", target__name="writer")
    assert (grant.permission_type, grant.max_calls_per_hour, grant.reason) == ("call", 5, "Trial")
    assert grant.allowed_actions == ["draft", "release.*"]
    assert grant.expires_at is not None
    assert (access_badge(mara, "triage-bot"), access_badge(mara, "writer")) == (before[0] + 1, before[1] + 1)
    assert "triage-bot has a live grant for writer already: call." in (
        mara.post(hub("triage-bot", "give/preview/"), GIVEN).content.decode()
    )
    again = mara.post(hub("triage-bot", "give/"), GIVEN)
    assert again.status_code == 409
    assert mara.post(hub("triage-bot", "give/"), {**GIVEN, "may": "delegate"}).status_code == 302
    # Nothing typed is all task types.
    assert NhiPermission.objects.get(source__name="triage-bot", permission_type="delegate").allowed_actions is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"agent": ""}, "Write the name of an agent."),
        ({"agent": "nobody-here"}, "There is no agent or service account nobody-here that you can see."),
        ({"agent": "triage-bot"}, ""),
        ({"actions": "x" * 201}, "Each action is a name or a glob"),
    ],
)
def test_what_it_cannot_be_is_said_beside_the_field(mara: Client, more: dict[str, str], said: str) -> None:
    answer = mara.post(hub("triage-bot", "give/"), {**GIVEN, **more})
    assert answer.status_code in (400, 409, 422)
    assert said in str(answer.context["form"].errors.get(next(iter(more)), answer.context["form"].errors))
    assert not NhiPermission.objects.filter(source__name="triage-bot").exists()


def test_tools_are_given_as_before_and_their_limits_are_theirs(mara: Client, signed_in: SignedIn) -> None:
    form = mara.get(hub("triage-bot", "give/")).context["form"]
    assert [value for value, _ in form.fields["what"].choices] == ["pattern", "server", "tools", "agent"]
    shown = {field.name: field.field.shown_for for field in form.limit_fields}
    assert shown == {
        **dict.fromkeys(("parameters", "per_hour", "approval"), "what=pattern|server|tools"),
        **dict.fromkeys(("actions", "tasks_per_hour"), "what=agent"),
    }
    assert signed_in("tom").get(hub("triage-bot", "give/")).status_code == 403
