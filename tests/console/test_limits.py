"""The limits of a grant go by the same words wherever they are said."""

import pytest
from django.test import Client

from nhi import grants
from nhi.actors import SYSTEM
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
