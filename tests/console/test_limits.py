"""The limits of a grant go by the same words wherever they are said."""

from typing import Any

import pytest
from django.test import Client

from nhi import grants
from nhi.actors import SYSTEM
from nhi.models import ToolPermission
from tests.console.conftest import hub, identity

pytestmark = pytest.mark.capability("CON-05", "NHI-06")


def test_a_grant_is_limited_in_the_same_words_in_its_list_on_its_page_and_in_the_hub(mara: Client) -> None:
    given = grants.give_nhi(
        actor=SYSTEM, source=identity("writer"), target=identity("triage-bot"), permission_type="call", reason="Triage",
        allowed_actions=["sort", "tag", "close", "open"], max_calls_per_hour=60,
    )  # fmt: skip
    pages = ("/admin/nhi/nhipermission/", f"/admin/nhi/nhipermission/{given.pk}/", hub("writer", "access/"))
    for page in pages:
        html = mara.get(page).content.decode()
        assert "only sort, tag, close …" in html, page
        assert "60 per hour" in html, page


@pytest.mark.parametrize(
    "page",
    [
        "/admin/nhi/toolpermission/give/",
        "/admin/nhi/nhipermission/give/",
        "/admin/nhi/toolpermission/many/",
        "an agent's own",
    ],
)
def test_what_cannot_be_enforced_yet_is_not_offered(mara: Client, page: str) -> None:
    answer = mara.get(hub(tab="give/") if page == "an agent's own" else page)
    assert answer.status_code == 200
    assert not {"per_hour", "approval", "drop"} & set(answer.context["form"].fields)


def test_what_was_stored_over_rest_is_said_kept_and_dropped_by_a_tick(mara: Client) -> None:
    terms: dict[str, Any] = {"max_calls_per_hour": 60, "requires_approval": True}
    tool = identity("github__delete_repo")
    given = grants.give_tool(actor=SYSTEM, agent=identity("writer"), tool=tool, reason="Once", **terms)
    page = mara.get(f"/admin/nhi/toolpermission/{given.pk}/").content.decode()
    assert "60 per hour, needs approval: not enforced yet" in page
    assert "Drop “60 per hour” and “needs approval”" in _limits(mara, given).content.decode()
    assert mara.post(_where(given), {"parameters": "{}", "reason": "Kept"}).status_code == 302
    kept = ToolPermission.objects.get(agent=given.agent, tool=tool, revoked_at=None)
    assert (kept.allowed_parameters, kept.max_calls_per_hour, kept.requires_approval) == ({}, 60, True)
    assert mara.post(_where(kept), {"parameters": "", "drop": "on", "reason": "Dropped"}).status_code == 302
    free = ToolPermission.objects.get(agent=given.agent, tool=tool, revoked_at=None)
    assert (free.allowed_parameters, free.max_calls_per_hour, free.requires_approval) == (None, None, False)
    assert "drop" not in _limits(mara, free).context["form"].fields


def _where(grant: ToolPermission) -> str:
    return f"/admin/nhi/toolpermission/{grant.pk}/limits/"


def _limits(client: Client, grant: ToolPermission) -> Any:
    return client.get(_where(grant))
