"""Credentials: their form, how many live at a time, rotation, revocation, networks, an end by the database's clock."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from common.db import clock
from common.errors import InvalidInput, NotAllowed
from nhi.actors import SYSTEM
from nhi.authorization import authentication
from nhi.choices import GrantState
from nhi.credentials import credentials, tokens
from nhi.identities import identities, lifecycle
from nhi.models import Credential, Identity, RefusedAuthentication
from nhi.people import people
from tests.nhi import cast
from tests.nhi.tokens import crc, shown

pytestmark = [pytest.mark.capability("NHI-04"), pytest.mark.django_db, pytest.mark.both_databases]


def end(credential: Credential, **ago: float) -> None:
    Credential.objects.filter(pk=credential.pk).update(expires_at=cast.past(**ago))


@pytest.mark.parametrize("prefix", ["agt", "svc", "usr"])
def test_the_form_can_be_checked_offline(prefix: str) -> None:
    holder = {"agt": cast.agent, "svc": cast.service, "usr": lambda: cast.user("uma")}[prefix]()
    token = credentials.issue(actor=SYSTEM, holder=holder).token
    assert re.fullmatch(rf"nhi_{prefix}_[0-9A-Za-z]+_[0-9A-Za-z]{{36,}}", token)
    assert len(token.split("_")) == 4
    assert token[-6:] == crc(token[:-6])


def test_two_are_live_and_a_third_is_a_conflict() -> None:
    bot = cast.agent()
    first = credentials.issue(actor=SYSTEM, holder=bot)
    second = credentials.issue(actor=SYSTEM, holder=bot)
    with pytest.raises(credentials.TooManyLiveCredentials):
        credentials.issue(actor=SYSTEM, holder=bot)
    credentials.revoke(actor=SYSTEM, credential=first.credential, reason="Room")
    third = credentials.issue(actor=SYSTEM, holder=bot)
    end(second.credential, seconds=1)
    assert credentials.issue(actor=SYSTEM, holder=bot).token not in {first.token, second.token, third.token}


def test_an_end_is_mandatory_and_within_a_year() -> None:
    bot = cast.agent()
    ends = credentials.issue(actor=SYSTEM, holder=bot).credential.expires_at
    assert ends is not None
    assert abs(ends - clock.database_now() - timedelta(days=90)) < timedelta(minutes=1)
    longest = credentials.issue(actor=SYSTEM, holder=bot, days=366).credential.expires_at
    assert longest is not None
    for days in (0, -1, 367, 10**9):
        with pytest.raises(InvalidInput) as refused:
            credentials.issue(actor=SYSTEM, holder=cast.agent(f"bot-{days}"), days=days)
        assert [field.field for field in refused.value.fields] == ["expires_in_days"]


def test_the_database_decides_when_the_end_has_come() -> None:
    issued = credentials.issue(actor=SYSTEM, holder=cast.agent())
    with time_machine.travel(clock.database_now() + timedelta(days=400)):
        assert shown(issued.token) == "", "the application's clock runs ahead"
    end(issued.credential, seconds=1)
    with time_machine.travel(clock.database_now() - timedelta(days=400)):
        assert shown(issued.token) == "credential_expired", "the application's clock runs behind"


def test_now_is_expired_already() -> None:
    now = clock.database_now()
    facts = credentials.CredentialFacts(b"", live=False, expired=True, revoked=False)
    assert Credential(expires_at=now).state_at(now) == GrantState.EXPIRED
    assert Credential(expires_at=now + timedelta(microseconds=1)).state_at(now) == GrantState.LIVE
    assert facts.expired


def test_what_was_revoked_never_lives_again_when_the_clock_steps_back() -> None:
    now = clock.database_now()
    closed = Credential(expires_at=now - timedelta(minutes=1), revoked_at=now)
    assert closed.state_at(now - timedelta(hours=1)) != GrantState.LIVE


def test_rotation_overlaps_and_refuses_a_third() -> None:
    bot = cast.agent()
    old = credentials.issue(actor=SYSTEM, holder=bot, days=30, allowed_networks=["203.0.113.0/24"])
    new = credentials.rotate(actor=SYSTEM, credential=old.credential, overlap=60)
    assert (shown(old.token), shown(new.token)) == ("", "")
    assert new.previous is not None
    assert new.previous.overlaps
    assert new.credential.allowed_networks == ["203.0.113.0/24"]
    assert abs(new.credential.lifetime - timedelta(days=30)) < timedelta(minutes=1)
    for live in (old.credential, new.credential):
        with pytest.raises(credentials.TooManyLiveCredentials):
            credentials.rotate(actor=SYSTEM, credential=live)
    end(old.credential, seconds=1)
    assert (shown(old.token), shown(new.token)) == ("credential_expired", "")


def test_rotation_never_extends_the_old_one() -> None:
    old = credentials.issue(actor=SYSTEM, holder=cast.agent(), days=1)
    new = credentials.rotate(actor=SYSTEM, credential=old.credential, overlap=30 * 86400)
    assert new.previous is not None
    assert new.previous.expires_at == old.credential.expires_at


def test_rotation_without_overlap_ends_the_old_one_at_once() -> None:
    old = credentials.issue(actor=SYSTEM, holder=cast.agent())
    new = credentials.rotate(actor=SYSTEM, credential=old.credential, overlap=0)
    assert (shown(old.token), shown(new.token)) == ("credential_expired", "")


@pytest.mark.parametrize("overlap", [-1, 30 * 86400 + 1])
def test_an_odd_overlap_is_invalid(overlap: int) -> None:
    old = credentials.issue(actor=SYSTEM, holder=cast.agent())
    with pytest.raises(InvalidInput) as refused:
        credentials.rotate(actor=SYSTEM, credential=old.credential, overlap=overlap)
    assert [field.field for field in refused.value.fields] == ["overlap_seconds"]


def test_what_ended_is_not_rotated() -> None:
    revoked = credentials.issue(actor=SYSTEM, holder=cast.agent())
    credentials.revoke(actor=SYSTEM, credential=revoked.credential, reason="Leak")
    expired = credentials.issue(actor=SYSTEM, holder=cast.agent("other"))
    end(expired.credential, seconds=1)
    for issued in (revoked, expired):
        with pytest.raises(credentials.CredentialNotLive):
            credentials.rotate(actor=SYSTEM, credential=issued.credential)


def test_a_revoked_one_is_refused_at_once_and_not_revoked_twice() -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    revoked = credentials.revoke(actor=cast.admin(), credential=issued.credential, reason="Leak")
    assert (revoked.state, revoked.revoked_by_name, revoked.revoke_reason) == ("revoked", "mara", "Leak")
    assert shown(issued.token) == "credential_revoked"
    assert Identity.objects.get(pk=bot.pk).access_epoch == 1
    with pytest.raises(credentials.CredentialNotLive):
        credentials.revoke(actor=SYSTEM, credential=issued.credential, reason="Again")
    assert cast.events(bot).count("credential.revoked") == 1


def test_replacing_revokes_what_is_live() -> None:
    bot = cast.agent()
    old = [credentials.issue(actor=SYSTEM, holder=bot) for _ in range(2)]
    new = credentials.replace(actor=SYSTEM, holder=bot)
    assert shown(new.token) == ""
    assert {shown(issued.token) for issued in old} == {"credential_revoked"}


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("192.0.2.7", ""), ("192.0.3.1", "network_not_allowed"), ("::ffff:192.0.2.7", ""),
        ("::ffff:192.0.3.7", "network_not_allowed"), ("2001:db8::1", ""), ("2001:db9::1", "network_not_allowed"),
        ("198.51.100.4", ""), ("198.51.100.5", "network_not_allowed"), ("", "network_not_allowed"),
        ("not an address", "network_not_allowed"), ("::192.0.2.7", "network_not_allowed"),
        ("64:ff9b::c000:207", "network_not_allowed"), ("fe80::1%eth0", "network_not_allowed"),
    ],
)  # fmt: skip
def test_only_from_allowed_networks(source: str, refused: str) -> None:
    networks = ["192.0.2.7/24", "2001:db8::/32", "198.51.100.4"]
    issued = credentials.issue(actor=SYSTEM, holder=cast.agent(), allowed_networks=networks)
    assert issued.credential.allowed_networks == ["192.0.2.0/24", "2001:db8::/32", "198.51.100.4/32"]
    assert shown(issued.token, source) == refused


@pytest.mark.parametrize("network", ["300.0.0.0/8", "10.0.0.0/33", "", "example.org", "10.0.0.1-10.0.0.9", "1" * 200])
def test_odd_networks_are_invalid(network: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        credentials.issue(actor=SYSTEM, holder=cast.agent(), allowed_networks=[network])
    assert [field.field for field in refused.value.fields] == ["allowed_networks"]


def test_a_malformed_token_asks_the_database_nothing_and_leaves_no_row() -> None:
    token = credentials.issue(actor=SYSTEM, holder=cast.agent()).token
    broken = token[:-1] + ("A" if token[-1] != "A" else "B")
    for text in ("", "nhi_agt_", broken, token + "x", token[:-1], token.upper(), f" {token}", token + "\n", "x" * 9999):
        with (
            CaptureQueriesContext(
                connection,
            ) as asked,
            pytest.raises(authentication.Unauthenticated) as refused,
        ):
            authentication.authenticate(text)
        assert refused.value.reason == "malformed"
        assert len(asked) == 0, text
    assert not RefusedAuthentication.objects.exists()


def test_a_good_form_with_another_secret_is_as_unknown_as_another_id() -> None:
    token = credentials.issue(actor=SYSTEM, holder=cast.agent()).token
    _, kind, public_id, _ = token.split("_")
    for body in (f"nhi_{kind}_{public_id}_{'A' * 40}", f"nhi_{kind}_{'A' * 16}_{'A' * 40}"):
        assert shown(body + crc(body)) == "credential_unknown"


def test_a_token_of_one_kind_does_not_pass_for_another() -> None:
    token = credentials.issue(actor=SYSTEM, holder=cast.agent()).token
    body = token[:-6].replace("nhi_agt_", "nhi_svc_")
    assert shown(body + crc(body)) == "credential_unknown"


def test_tools_and_those_who_are_gone_get_none() -> None:
    gone = cast.agent()
    lifecycle.deprecate(actor=SYSTEM, identity=gone, reason="Old")
    for holder in (cast.tool(), Identity.objects.get(pk=gone.pk)):
        with pytest.raises(InvalidInput):
            credentials.issue(actor=SYSTEM, holder=holder)
    assert not Credential.objects.exists()


def test_what_was_read_before_an_archive_does_not_help() -> None:
    stale = cast.agent()
    lifecycle.deprecate(actor=SYSTEM, identity=Identity.objects.get(pk=stale.pk), reason="Old")
    lifecycle.archive(actor=SYSTEM, identity=Identity.objects.get(pk=stale.pk), reason="Gone")
    assert stale.state == "active"
    with pytest.raises(InvalidInput):
        credentials.issue(actor=SYSTEM, holder=stale)


def test_whose_credentials_one_handles() -> None:
    bot = cast.agent(owner=cast.user("olga", "operator"))
    cast.user_grant(bot, cast.user("max"), "manage")
    cast.user_grant(bot, cast.user("uma"), "use")
    for name in ("olga", "max"):
        issued = credentials.issue(actor=cast.acting(name), holder=bot)
        credentials.revoke(actor=cast.acting(name), credential=issued.credential, reason="Done")
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    for name in ("uma", "stranger"):
        with pytest.raises(NotAllowed):
            credentials.issue(actor=cast.acting(name), holder=bot)
        with pytest.raises(NotAllowed):
            credentials.rotate(actor=cast.acting(name), credential=issued.credential)
        with pytest.raises(NotAllowed):
            credentials.revoke(actor=cast.acting(name), credential=issued.credential, reason="Trying")
        with pytest.raises(NotAllowed):
            credentials.issue(actor=cast.acting(name), holder=cast.user("olga"))


@pytest.mark.capability("CON-01")
def test_owning_a_service_account_with_console_roles_makes_no_admin() -> None:
    olga = cast.user("olga", "operator")
    account = cast.service(owner=olga)
    plain = credentials.issue(actor=cast.acting("olga"), holder=account)
    identities.set_console_roles(actor=SYSTEM, identity=account, roles=["security-admin"])
    with pytest.raises(NotAllowed):
        credentials.issue(actor=cast.acting("olga"), holder=account)
    with pytest.raises(NotAllowed):
        credentials.rotate(actor=cast.acting("olga"), credential=plain.credential)
    made = credentials.issue(actor=SYSTEM, holder=account).credential
    assert credentials.revoke(actor=cast.acting("olga"), credential=made, reason="Unused").state == "revoked"


@pytest.mark.capability("CON-01")
def test_an_auditor_issues_no_token_not_even_their_own() -> None:
    ada = cast.user("ada", "auditor")
    with pytest.raises(NotAllowed):
        credentials.issue(actor=cast.acting("ada"), holder=ada)


def test_a_personal_token_acts_as_the_person_until_they_are_deactivated() -> None:
    uma = cast.user("uma", "operator")
    token = credentials.issue(actor=cast.acting("uma"), holder=uma).token
    found = authentication.authenticate(token).actor
    assert (found.kind, found.id, found.rights) == ("user", uma.pk, cast.acting("uma").rights)
    people.deactivate(actor=cast.admin(), user=uma, reason="Left")
    assert shown(token) == "credential_revoked"


def test_a_short_lived_token_lives_no_longer_than_its_credential() -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    stamp = int(clock.database_now().timestamp() * 1000)
    short = tokens.mint_short_token(tokens.ShortTokenClaims(bot.pk, issued.credential.pk, stamp, stamp + 900_000))
    assert shown(short) == ""
    credentials.revoke(actor=SYSTEM, credential=issued.credential, reason="Leak")
    assert shown(short) == "credential_revoked"


def test_a_short_lived_token_ends_with_a_stop_for_good() -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    stamp = int(clock.database_now().timestamp() * 1000)
    short = tokens.mint_short_token(tokens.ShortTokenClaims(bot.pk, issued.credential.pk, stamp, stamp + 900_000))
    lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Leak")
    lifecycle.activate(actor=SYSTEM, identity=Identity.objects.get(pk=bot.pk), reason="Clean")
    assert (shown(short), shown(issued.token)) == ("token_stopped", "")
