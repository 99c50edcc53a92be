"""No database of ours stores a NUL, so the console takes none: not in an address, not in a form."""

import pytest
from django.test import Client

from nhi.models import Identity
from tests.console.conftest import hub

pytestmark = pytest.mark.capability("CON-05")
ADDRESSES = (
    "/admin/nhi/identity/?q=%00", "/admin/nhi/identity/?team=a%00b", "/admin/nhi/identity/?owner=%00",
    "/admin/nhi/toolpermission/?given_by=%00", "/admin/nhi/toolpermission/?server=%00",
    "/admin/nhi/credential/?q=%00", "/admin/nhi/role/?q=%00", "/admin/nhi/user/?q=%00",
    "/admin/nhi/auditevent/?actor=%00", "/admin/nhi/auditevent/?subject=%00",
    "/admin/search/?s=%00", "/admin/names/agent/?q=%00", "/admin/names/person/?q=%00",
    "/admin/explain/?caller=%00&target=x", "/admin/nhi/toolpermission/give/?agent=%00",
)  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_with_a_nul_is_refused(mara: Client, address: str) -> None:
    page = mara.get(address)
    assert page.status_code == 400
    assert "Leave out the NUL character." in page.content.decode()


@pytest.mark.parametrize(
    ("address", "field"),
    [("/admin/nhi/toolpermission/give/", "agent"), ("/admin/nhi/identity/add/", "owner")],
)
def test_a_form_with_a_nul_is_refused(mara: Client, address: str, field: str) -> None:
    page = mara.post(address, {field: "a\0b", "name": "new-bot"})
    assert page.status_code == 400
    assert not Identity.objects.filter(name="new-bot").exists()


def test_nothing_is_said_to_who_is_not_signed_in(client: Client, seeded: None) -> None:
    assert client.get("/admin/nhi/identity/?q=%00").status_code == 302


def test_a_change_with_a_nul_changes_nothing(mara: Client) -> None:
    assert mara.post(hub(tab="change/"), {"owner": "mara\0"}).status_code == 400
