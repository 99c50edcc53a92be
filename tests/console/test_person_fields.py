"""A person is chosen among those whom one may see: the console tells no more names than the API."""

import pytest
from django.test import Client

from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.choices import Level
from nhi.models import Identity, User
from tests.console.conftest import SignedIn, hub, identity
from tests.nhi.cast import user

pytestmark = pytest.mark.capability("CON-05")
UNSEEN, ABSENT = "tom", "nobody-here"
BULK = "/admin/nhi/identity/bulk/owner/"


@pytest.fixture
def olga(signed_in: SignedIn) -> Client:
    return signed_in("olga")


def own(name: str = "writer") -> Identity:
    """One that olga owns, and so edits."""
    Identity.objects.filter(name=name).update(owner=User.objects.get(username="olga"), backup_owner=None)
    return identity(name)


def body(client: Client, name: str, **changed: str) -> dict[str, str]:
    form = client.get(hub(name, "change/")).context["form"]
    return {one: form[one].value() or "" for one in form.fields if one != "tags"} | changed


@pytest.mark.parametrize("field", ["owner", "backup_owner"])
def test_whom_one_does_not_see_is_refused_in_the_words_for_nobody(olga: Client, field: str) -> None:
    one = own()
    said = []
    for name in (UNSEEN, ABSENT):
        page = olga.post(hub("writer", "change/"), body(olga, "writer", **{field: name}))
        assert page.status_code == 422
        said.append(page.context["form"].errors[field])
    assert said[0] == said[1]
    one.refresh_from_db()
    assert (one.owner.username, one.backup_owner) == ("olga", None)


def test_several_are_not_handed_to_whom_one_does_not_see(olga: Client) -> None:
    one = own()
    page = olga.post(f"{BULK}?id={one.pk}", {"owner": UNSEEN})
    assert page.status_code == 422
    assert page.context["form"].errors["owner"]
    one.refresh_from_db()
    assert one.owner.username == "olga"


def test_who_owns_it_now_may_stay_though_one_does_not_see_them(olga: Client) -> None:
    one = identity("deploy-bot")
    gone = user("gone")
    Identity.objects.filter(pk=one.pk).update(owner=User.objects.get(username="mara"), backup_owner=gone)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    grants.give_user(
        actor=SYSTEM, nhi=one, user=User.objects.get(username="olga"), level=Level.ADMIN, reason="Looks after it"
    )
    page = olga.post(hub("deploy-bot", "change/"), body(olga, "deploy-bot", purpose="Deploys"))
    assert page.status_code == 302
    one.refresh_from_db()
    assert (one.owner.username, one.backup_owner.username, one.purpose) == ("mara", "gone", "Deploys")


def test_who_sees_people_chooses_among_all_of_them(mara: Client) -> None:
    assert mara.post(hub("writer", "change/"), body(mara, "writer", owner=UNSEEN, backup_owner="")).status_code == 302
    assert identity("writer").owner.username == UNSEEN
