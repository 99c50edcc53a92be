"""One security admin alone gets no second hand: no account that approves is theirs to make, take over or revive."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission

from common.errors import InvalidInput, NotAllowed
from nhi import actors
from nhi.access import rights
from nhi.actors import SYSTEM, Actor
from nhi.credentials import credentials
from nhi.identities import identities
from nhi.models import Credential, Identity, User
from nhi.people import people
from tests.nhi import cast

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.both_databases,
    pytest.mark.capability("CON-01", "NHI-04"),
]


@dataclass
class World:
    #: The approver, an operator, and a service account that approves.
    tom: User
    olga: User
    account: Identity


@pytest.fixture
def world() -> World:
    account = cast.service()
    identities.set_console_roles(actor=SYSTEM, identity=account, roles=["approver"])
    return World(cast.user("tom", "approver"), cast.user("olga", "operator"), account)


def role_of_ones_own(*codenames: str) -> str:
    group = Group.objects.create(name="reviewers")
    group.permissions.add(*Permission.objects.filter(codename__in=codenames))
    return group.name


def set_roles(actor: Actor, user: User, *roles: str) -> User:
    return people.set_roles(actor=actor, user=user, roles=roles, reason="Review")


def superuser() -> User:
    return people.create(actor=SYSTEM, username="root", roles=[], superuser=True).user


#: What makes a second hand, or cuts one off.
ATTEMPTS: dict[str, Callable[[Actor, World], Any]] = {
    "add an approver": lambda a, w: people.create(actor=a, username="twin", roles=["approver"]),
    "add an approver among other roles": lambda a, w: people.create(
        actor=a, username="twin", roles=["operator", "approver"]
    ),
    "add a security admin": lambda a, w: people.create(actor=a, username="twin", roles=["security-admin"]),
    "give approver": lambda a, w: set_roles(a, w.olga, "operator", "approver"),
    "give security-admin": lambda a, w: set_roles(a, w.olga, "security-admin"),
    "take approver": lambda a, w: set_roles(a, w.tom),
    "swap approver for operator": lambda a, w: set_roles(a, w.tom, "operator"),
    "give auditor beside approver, which bars from deciding": lambda a, w: set_roles(a, w.tom, "approver", "auditor"),
    "set the password of an approver": lambda a, w: people.set_password(
        actor=a, user=w.tom, password=people.generate_password(), reason="Forgotten"
    ),
    "reset the factor of an approver": lambda a, w: people.reset_second_factor(
        actor=a, user=w.tom, reason="Phone lost"
    ),
    "make a token of an approver": lambda a, w: credentials.issue(actor=a, holder=w.tom),
    "give a service account approver": lambda a, w: identities.set_console_roles(
        actor=a, identity=cast.service("other"), roles=["approver"]
    ),
    "take approver from a service account": lambda a, w: identities.set_console_roles(
        actor=a, identity=w.account, roles=["operator"]
    ),
    "issue a credential of a service account that approves": lambda a, w: credentials.issue(actor=a, holder=w.account),
    "rotate a credential of a service account that approves": lambda a, w: credentials.rotate(
        actor=a, credential=Credential.objects.filter(identity=w.account).first() or issued(w.account)
    ),
}


def issued(holder: Identity) -> Credential:
    return credentials.issue(actor=SYSTEM, holder=holder).credential


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_security_admin_alone_makes_and_takes_no_account_that_approves(attempt: str, world: World) -> None:
    mara = cast.admin()
    with pytest.raises(NotAllowed) as refused:
        ATTEMPTS[attempt](mara, world)
    assert "superuser" in f"{refused.value.message} {refused.value.details}"
    assert not User.objects.filter(username="twin").exists()
    assert [group.name for group in world.tom.groups.all()] == ["approver"]
    assert not Credential.objects.filter(user=world.tom).exists()


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_superuser_does(attempt: str, world: World) -> None:
    root = people.create(actor=SYSTEM, username="root", superuser=True).user
    ATTEMPTS[attempt](actors.person(root), world)


def test_taking_auditor_from_an_approver_makes_one_and_needs_a_superuser() -> None:
    ada = cast.user("ada", "auditor", "approver")
    with pytest.raises(NotAllowed):
        set_roles(cast.admin(), ada, "approver")
    assert cast.acting("ada").only_reads


@pytest.mark.parametrize("codename", ["approve_definition", "decide_approval", "change_role"])
def test_a_role_counts_by_what_it_holds_and_not_by_its_name(codename: str) -> None:
    own = role_of_ones_own(codename)
    account, max_ = cast.service(), cast.user("max", "operator")
    with pytest.raises(NotAllowed):
        identities.set_console_roles(actor=cast.admin(), identity=account, roles=[own])
    max_.groups.add(Group.objects.get(name=own))
    with pytest.raises(NotAllowed):
        people.reset_second_factor(actor=cast.admin(), user=max_, reason="Phone lost")


def test_a_right_that_a_person_holds_without_any_role_counts_too() -> None:
    max_ = cast.user("max", "operator")
    max_.user_permissions.add(Permission.objects.get(codename="decide_approval"))
    with pytest.raises(NotAllowed):
        people.set_password(actor=cast.admin(), user=max_, password=people.generate_password(), reason="Forgotten")


def test_what_decides_about_nobody_stays_a_security_admins(world: World) -> None:
    mara = cast.admin()
    assert people.create(actor=mara, username="nina", roles=["operator"]).user.is_staff
    set_roles(mara, world.olga, "operator", "auditor")
    set_roles(mara, world.tom, "approver", "operator")
    people.set_password(actor=mara, user=world.olga, password=people.generate_password(), reason="Forgotten")
    account = cast.service("reports")
    identities.set_console_roles(actor=mara, identity=account, roles=["operator"])
    assert credentials.issue(actor=mara, holder=account).token


def test_a_service_account_that_approves_still_rotates_its_own_credential(world: World) -> None:
    identities.set_console_roles(actor=SYSTEM, identity=world.account, roles=["security-admin"])
    old = issued(world.account)
    acting = actors.identity(world.account, credential_id=old.pk)
    assert credentials.rotate(actor=acting, credential=old).token
    other = cast.service("other")
    identities.set_console_roles(actor=SYSTEM, identity=other, roles=["approver"])
    with pytest.raises(NotAllowed):
        credentials.issue(actor=acting, holder=other)


class TestReactivating:
    """A twin from before an upgrade that somebody else has deactivated stays deactivated."""

    def test_what_another_deactivated_a_security_admin_does_not_revive(self, world: World) -> None:
        people.deactivate(actor=SYSTEM, user=world.tom, reason="Account misused")
        with pytest.raises(NotAllowed):
            people.reactivate(actor=cast.admin(), user=world.tom, reason="Back")
        assert not User.objects.get(pk=world.tom.pk).is_active
        assert rights.is_approver(world.tom)
        people.reactivate(actor=SYSTEM, user=world.tom, reason="Back")

    def test_whoever_deactivated_may_undo_it(self, world: World) -> None:
        mara = cast.admin()
        people.deactivate(actor=mara, user=world.tom, reason="On leave")
        assert people.reactivate(actor=mara, user=world.tom, reason="Back").is_active

    def test_who_approves_nothing_is_revived_by_any_security_admin(self, world: World) -> None:
        people.deactivate(actor=SYSTEM, user=world.olga, reason="On leave")
        assert people.reactivate(actor=cast.admin(), user=world.olga, reason="Back").is_active


def test_somebody_elses_password_needs_a_reason(world: World) -> None:
    with pytest.raises(InvalidInput) as refused:
        people.set_password(actor=cast.admin(), user=world.olga, password=people.generate_password(), reason=" ")
    assert [problem.field for problem in refused.value.fields] == ["reason"]


def test_who_becomes_an_approver_keeps_nothing_that_was_set_up_before(world: World) -> None:
    """A security admin may have made the account, and kept a token or a session of it."""
    token = credentials.issue(actor=SYSTEM, holder=world.olga)
    epoch = world.olga.session_epoch
    promoted = set_roles(actors.person(superuser()), world.olga, "operator", "approver")
    assert Credential.objects.get(pk=token.credential.pk).revoked_at is not None
    assert promoted.session_epoch == epoch + 1
    assert rights.is_approver(promoted)


def test_what_an_approver_has_set_up_stays_when_roles_change_again(world: World) -> None:
    token = credentials.issue(actor=SYSTEM, holder=world.tom)
    set_roles(actors.person(superuser()), world.tom, "operator", "approver")
    assert Credential.objects.get(pk=token.credential.pk).revoked_at is None


@pytest.mark.parametrize("way", ["made", "password set"])
def test_nobody_becomes_an_approver_whose_password_a_security_admin_knows(world: World, way: str) -> None:
    mara, root = cast.admin(), superuser()
    if way == "made":
        user = people.create(actor=mara, username="newby", roles=["operator"]).user
    else:
        user = world.olga
        user.set_password(people.generate_password())
        user.save()
        people.set_password(actor=mara, user=user, password=people.generate_password(), reason="Forgotten")
    user.refresh_from_db()
    with pytest.raises(NotAllowed, match=f"A security admin knows the password of {user.username}"):
        set_roles(actors.person(root), user, "approver")
    assert not rights.is_approver(user)
    people.set_password(
        actor=actors.person(root), user=user, password=people.generate_password(), reason="To be an approver"
    )
    user.refresh_from_db()
    assert rights.is_approver(set_roles(actors.person(root), user, "approver"))
