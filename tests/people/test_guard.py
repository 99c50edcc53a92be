"""Five wrong tries lock a name for an address, before any hash, exactly, and not the person elsewhere."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.db import DatabaseError, connection
from django.db.models import F
from django.test import Client

from common.db import clock
from common.errors import RateLimited
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, SignInGuard
from nhi.people import sign_in, sign_in_throttle
from tests.people.conftest import PASSWORD, Make, Somebody

pytestmark = pytest.mark.capability("CON-01")


def attempt(username: str, password: str, address: str = "192.0.2.1", **headers: str):
    body = {"username": username, "password": password}
    return Client(REMOTE_ADDR=address, headers=headers).post("/admin/login/", body)


def wrong(times: int, username: str = "mara", address: str = "192.0.2.1") -> list[int]:
    return [attempt(username, "wrong", address).status_code for _ in range(times)]


def let_time_pass(**how_long: int) -> None:
    moments = ("last_attempt_at", "locked_until", "succeeded_at")
    SignInGuard.objects.update(**{name: F(name) - timedelta(**how_long) for name in moments})


def test_the_sixth_try_is_refused_whatever_the_password(mara: Somebody) -> None:
    assert wrong(5) == [200] * 5
    answer = attempt("mara", PASSWORD)
    assert answer.status_code == 429
    assert 890 <= int(answer["Retry-After"]) <= 900
    assert "Too many failed sign-ins. Try again in 15 minutes." in answer.content.decode()


def test_a_lock_reads_the_same_for_who_does_not_exist(mara: Somebody) -> None:
    wrong(5)
    wrong(5, "nobody")
    known, unknown = attempt("mara", "x"), attempt("nobody", "x")
    assert known.status_code == unknown.status_code == 429
    assert abs(int(known["Retry-After"]) - int(unknown["Retry-After"])) < 30


def test_a_locked_try_costs_no_hash_and_no_time(mara: Somebody, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(5)

    def never(*_: object) -> str:
        raise AssertionError("hashed")

    monkeypatch.setattr(MD5PasswordHasher, "encode", never)
    monkeypatch.setattr(MD5PasswordHasher, "verify", never)
    best = 1.0
    for _ in range(20):
        # The thread's own time: how busy the machine is with other tests is not the promise.
        begun = time.thread_time()
        assert attempt("mara", PASSWORD).status_code == 429
        best = min(best, time.thread_time() - begun)
    assert best < 0.02


def test_a_locked_try_writes_nothing(mara: Somebody) -> None:
    wrong(5)
    before = AuditEvent.objects.count()
    wrong(20)
    assert AuditEvent.objects.count() == before
    assert Counter(AuditEvent.objects.values_list("event", flat=True))["sign_in.failed"] == 5


@pytest.mark.capability("AUD-01")
def test_a_lock_is_on_record_once(mara: Somebody) -> None:
    wrong(8)
    [event] = AuditEvent.objects.filter(event="sign_in.locked")
    assert (event.subject_name, event.subject_id, event.source) == ("mara", mara.user.pk, "192.0.2.1")
    assert event.details["locked"] == "name from this address"


def test_the_lock_ends_and_the_next_one_is_twice_as_long(mara: Somebody) -> None:
    wrong(5)
    let_time_pass(minutes=16)
    assert wrong(5) == [200] * 5
    assert 1790 <= int(attempt("mara", PASSWORD)["Retry-After"]) <= 1800
    let_time_pass(minutes=31)
    assert attempt("mara", PASSWORD).status_code == 302


def test_getting_in_forgets_what_failed(mara: Somebody) -> None:
    wrong(4)
    assert attempt("mara", PASSWORD).status_code == 302
    assert wrong(4) == [200] * 4


def test_forwarded_addresses_are_believed_from_trusted_proxies_alone(mara: Somebody, settings) -> None:
    for number in range(5):
        attempt("mara", "wrong", **{"X-Forwarded-For": f"198.51.100.{number}"})
    assert attempt("mara", PASSWORD, **{"X-Forwarded-For": "198.51.100.99"}).status_code == 429
    settings.TRUSTED_PROXIES = 1
    # Past the proxy the header says nothing still.
    assert attempt("mara", PASSWORD, **{"X-Forwarded-For": "198.51.100.8"}).status_code == 429
    settings.TRUSTED_PROXY_NETWORKS = (ip_network("192.0.2.1"),)
    # The proxy appends what it saw; what the caller wrote in front of it is not looked at.
    for number in range(5):
        attempt("mara", "wrong", **{"X-Forwarded-For": f"203.0.113.{number}, 198.51.100.7"})
    assert attempt("mara", PASSWORD, **{"X-Forwarded-For": "203.0.113.50, 198.51.100.7"}).status_code == 429
    assert attempt("mara", PASSWORD, **{"X-Forwarded-For": "198.51.100.8"}).status_code == 302


def test_one_ipv6_customer_is_one_address(mara: Somebody) -> None:
    for number in range(5):
        attempt("mara", "wrong", f"2001:db8:1:1::{number}")
    assert attempt("mara", PASSWORD, "2001:db8:1:1:ffff::1").status_code == 429
    assert attempt("mara", PASSWORD, "2001:db8:1:2::1").status_code == 302


def test_a_name_in_another_case_is_the_same_name(mara: Somebody) -> None:
    for name in ("mara", "Mara", "MARA", "mArA", "marA"):
        attempt(name, "wrong")
    assert attempt("mara", PASSWORD).status_code == 429


def test_rotating_addresses_is_no_way_around(mara: Somebody) -> None:
    answers = [attempt("mara", "wrong", f"203.0.113.{number}").status_code for number in range(25)]
    assert answers == [200] * 20 + [429] * 5
    assert attempt("mara", PASSWORD, "203.0.113.200").status_code == 429


def test_a_stranger_cannot_lock_a_person_out_of_their_usual_place(mara: Somebody) -> None:
    assert attempt("mara", PASSWORD, "192.0.2.77").status_code == 302
    for number in range(40):
        attempt("mara", "wrong", f"203.0.113.{number}")
    assert attempt("mara", PASSWORD, "203.0.113.200").status_code == 429
    assert attempt("mara", PASSWORD, "192.0.2.77").status_code == 302
    let_time_pass(minutes=16)
    assert attempt("mara", PASSWORD, "203.0.113.200").status_code == 302


def test_a_usual_place_is_counted_too(mara: Somebody) -> None:
    attempt("mara", PASSWORD, "192.0.2.77")
    wrong(5, address="192.0.2.77")
    assert attempt("mara", PASSWORD, "192.0.2.77").status_code == 429


def test_one_address_cannot_try_every_name(mara: Somebody, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sign_in_throttle,
        "ADDRESS_RULE",
        sign_in_throttle.ThrottleRule("address", 10, timedelta(minutes=15), timedelta(minutes=15)),
    )
    attempt("mara", PASSWORD)
    answers = [attempt(f"person-{number}", "wrong").status_code for number in range(12)]
    assert answers == [200] * 10 + [429] * 2
    assert attempt("mara", PASSWORD).status_code == 302, "who signed in from here before still may"


def test_a_security_admin_unlocks_a_name(mara: Somebody) -> None:
    wrong(5)
    assert sign_in.unlock(actor=SYSTEM, username="Mara") > 0
    assert attempt("mara", PASSWORD).status_code == 302
    assert AuditEvent.objects.filter(event="sign_in.unlocked", subject_name="Mara").exists()


def test_counters_that_say_nothing_any_more_are_removed(mara: Somebody) -> None:
    attempt("mara", PASSWORD, "192.0.2.77")
    wrong(3, "nobody")
    let_time_pass(days=2)
    sign_in_throttle.remove_stale(clock.database_now())
    assert [row.source for row in SignInGuard.objects.all()] == ["192.0.2.77"]
    let_time_pass(days=100)
    sign_in_throttle.remove_stale(clock.database_now())
    assert not SignInGuard.objects.exists()


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_many_at_once_get_no_more_tries_than_one_by_one() -> None:
    def one(number: int) -> str:
        try:
            held = sign_in_throttle.admit(username="mara", source="192.0.2.1")
            time.sleep(0.01)
            sign_in_throttle.count_failure(held)
        except RateLimited:
            return "refused"
        finally:
            connection.close()
        return "tried"

    with ThreadPoolExecutor(16) as pool:
        answers = Counter(pool.map(one, range(40)))
    assert answers == {"tried": 5, "refused": 35}


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_many_right_ones_at_once_all_get_in() -> None:
    def one(number: int) -> bool:
        try:
            held = sign_in_throttle.admit(username="mara", source="192.0.2.1")
            time.sleep(0.01)
            sign_in_throttle.count_pass(held)
            sign_in_throttle.reset_counters(username="mara", source="192.0.2.1")
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(one, range(12)))
    row = SignInGuard.objects.get(username="mara", source="192.0.2.1")
    assert (row.failures, row.in_flight, row.locked_until) == (0, 0, None)


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_try_of_a_process_that_died_counts_as_wrong() -> None:
    for _ in range(5):
        sign_in_throttle.admit(username="mara", source="192.0.2.1")
    let_time_pass(seconds=11)
    with pytest.raises(RateLimited) as refusal:
        sign_in_throttle.admit(username="mara", source="192.0.2.1")
    assert refusal.value.retry_after > 800


def test_the_record_comes_before_the_answer(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """No record, no sign-in: neither a session nor a verdict."""
    mara = make("mara")
    monkeypatch.setattr(AuditEvent, "save", _broken)
    answer = mara.sign_in()
    assert answer.status_code == 503
    assert "cannot be written" in answer.content.decode()
    assert "_auth_user_id" not in mara.client.session


def _broken(*_: object, **__: object) -> None:
    raise DatabaseError
