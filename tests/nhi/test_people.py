"""People: who may change whom, and what ends with them."""

from typing import Any

import pytest

from common.errors import Duplicate, InvalidInput, NotAllowed
from nhi import actors
from nhi.access import rights
from nhi.actors import SYSTEM
from nhi.authorization import authentication
from nhi.credentials import credentials
from nhi.models import Credential, User
from nhi.people import people
from tests.nhi import cast
from tests.nhi.races.crowd import at_once, split

pytestmark = [pytest.mark.capability("CON-01"), pytest.mark.django_db, pytest.mark.both_databases]


def root() -> User:
    return people.create(actor=SYSTEM, username="root", superuser=True).user


def test_a_person_without_a_role_has_no_console() -> None:
    made = people.create(actor=cast.admin(), username="uma")
    assert (made.user.is_staff, made.user.is_superuser) == (False, False)
    assert made.user.check_password(made.password)
    assert people.create(actor=cast.admin(), username="olga", roles=["operator"]).user.is_staff


def test_the_four_roles_and_nothing_else() -> None:
    assert set(rights.CONSOLE_ROLES) == {"security-admin", "operator", "approver", "auditor"}
    for roles in (["superuser"], ["Security-Admin"], ["operator", "owner"]):
        with pytest.raises(InvalidInput) as refused:
            people.create(actor=SYSTEM, username="uma", roles=roles)
        assert [field.field for field in refused.value.fields] == ["roles"]


@pytest.mark.parametrize("username", ["", "a" * 151, "with space", "new\nline", "<script>", "x\x00"])
def test_odd_names_are_invalid(username: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        people.create(actor=SYSTEM, username=username)
    assert [field.field for field in refused.value.fields] == ["username"]


@pytest.mark.parametrize("password", ["short", "password1234", "123456789012345", "uma-uma-uma-uma"])
def test_weak_passwords_are_invalid(password: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        people.create(actor=SYSTEM, username="uma-uma-uma", password=password)
    assert {field.field for field in refused.value.fields} == {"password"}
    assert not User.objects.filter(username="uma-uma-uma").exists()


def test_a_name_is_taken_once() -> None:
    cast.user("uma")
    with pytest.raises(Duplicate):
        people.create(actor=SYSTEM, username="uma")


def test_nobody_changes_their_own_roles_or_state() -> None:
    mara, user = cast.admin(), cast.user("mara")
    for attempt, arguments in (
        (people.set_roles, {"roles": ["security-admin", "auditor"]}),
        (people.deactivate, {"reason": "Trying"}),
        (people.reactivate, {"reason": "Trying"}),
    ):
        with pytest.raises(InvalidInput):
            attempt(actor=mara, user=user, **arguments)


def test_only_a_superuser_touches_a_superuser() -> None:
    mara, boss = cast.admin(), root()
    for attempt, arguments in (
        (people.set_roles, {"roles": []}),
        (people.deactivate, {"reason": "Trying"}),
        (people.reactivate, {"reason": "Trying"}),
        (people.set_password, {"password": people.generate_password(), "reason": "Trying"}),
        (people.reset_second_factor, {"reason": "Trying"}),
    ):
        with pytest.raises(NotAllowed):
            attempt(actor=mara, user=boss, **arguments)
    with pytest.raises(NotAllowed):
        people.create(actor=mara, username="boss", superuser=True)
    people.set_roles(actor=SYSTEM, user=boss, roles=["auditor"])
    assert User.objects.get(pk=boss.pk).is_superuser


@pytest.mark.capability("NHI-04")
@pytest.mark.parametrize("whose", ["root", "nina"])
def test_nobody_becomes_another_person_by_their_token(whose: str) -> None:
    """A rotation or a new token would be shown to who asked, who could then act as that person."""
    holder = root() if whose == "root" else cast.user("nina", "security-admin")
    theirs = credentials.issue(actor=SYSTEM, holder=holder)
    mara = cast.admin()
    with pytest.raises(NotAllowed):
        credentials.issue(actor=mara, holder=holder)
    with pytest.raises(NotAllowed):
        credentials.rotate(actor=mara, credential=theirs.credential)
    assert Credential.objects.filter(user=holder).count() == 1
    credentials.revoke(actor=mara, credential=theirs.credential, reason="Found in a log")
    with pytest.raises(authentication.Unauthenticated):
        authentication.authenticate(theirs.token)


@pytest.mark.parametrize("role", ["operator", "approver", "auditor", ""])
def test_without_the_right_nothing_of_others_is_changed(role: str) -> None:
    actor, uma = cast.acting("other", *filter(None, [role])), cast.user("uma")
    token = credentials.issue(actor=SYSTEM, holder=uma)
    attempts: list[tuple[Any, dict[str, Any]]] = [
        (people.create, {"username": "new"}),
        (people.set_roles, {"user": uma, "roles": ["operator"]}),
        (people.deactivate, {"user": uma, "reason": "Trying"}),
        (people.reactivate, {"user": uma, "reason": "Trying"}),
        (people.reset_second_factor, {"user": uma, "reason": "Trying"}),
        (people.change_password, {"user": uma, "password": people.generate_password()}),
        (people.set_password, {"user": uma, "password": people.generate_password(), "reason": "Trying"}),
        (people.change_own_settings, {"user": uma, "time_zone": "UTC", "single_key_shortcuts": False}),
        (credentials.issue, {"holder": uma}),
        (credentials.revoke, {"credential": token.credential, "reason": "Trying"}),
    ]
    for verb, arguments in attempts:
        with pytest.raises(NotAllowed):
            verb(actor=actor, **arguments)


def test_who_is_deactivated_has_no_tokens_and_no_rights_until_they_are_back() -> None:
    mara, olga = cast.admin(), cast.user("olga", "operator")
    token = credentials.issue(actor=actors.person(olga), holder=olga).token
    people.deactivate(actor=mara, user=olga, reason="Left")
    assert not actors.person(User.objects.get(pk=olga.pk)).rights
    with pytest.raises(people.PersonStateUnchanged):
        people.deactivate(actor=mara, user=olga, reason="Again")
    people.reactivate(actor=mara, user=olga, reason="Back")
    assert actors.person(User.objects.get(pk=olga.pk)).rights
    with pytest.raises(people.PersonStateUnchanged):
        people.reactivate(actor=mara, user=olga, reason="Again")
    with pytest.raises(authentication.Unauthenticated):
        authentication.authenticate(token)
    assert cast.events(olga)[-2:] == ["person.deactivated", "person.reactivated"]


@pytest.mark.django_db(transaction=True)
def test_a_token_issued_while_its_person_is_deactivated_does_not_live() -> None:
    for number in range(6):
        uma = cast.user(f"uma-{number}")
        own = actors.person(uma)

        def act(turn: int, uma: User = uma, own: actors.Actor = own) -> object:
            if turn == 0:
                return people.deactivate(actor=SYSTEM, user=uma, reason="Left")
            return credentials.issue(actor=own, holder=uma)

        split(at_once(3, act), InvalidInput)
        assert not Credential.objects.live().filter(user=uma).exists()


def test_an_auditor_in_other_groups_too_only_reads() -> None:
    ada = cast.acting("ada", "auditor", "security-admin")
    assert ada.only_reads
    assert {right for right in ada.rights if ".view_" not in right} == {"nhi.read_only", "nhi.export_data"}
    assert not ada.may("nhi.add_identity")
    assert ada.may("nhi.view_auditevent")
