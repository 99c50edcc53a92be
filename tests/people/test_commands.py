"""What a script does about sign-in, and what the sweep removes."""

import io
import json
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.utils import timezone

from nhi import tasks
from nhi.models import AuditEvent, SignInGuard
from tests.people.conftest import PASSWORD, Somebody
from tests.people.test_second_factor import set_up_app

pytestmark = pytest.mark.capability("OPS-05", "CON-01")


def told(*arguments: str) -> dict:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_a_locked_name_is_unlocked(mara: Somebody) -> None:
    for _ in range(5):
        mara.client.post("/admin/login/", {"username": "mara", "password": "wrong"})
    assert mara.sign_in().status_code == 429
    assert told("unlock_sign_in", "mara") == {"username": "mara", "counters": 2}
    assert mara.sign_in().status_code == 302


def test_a_lost_factor_is_reset(mara: Somebody) -> None:
    set_up_app(mara)
    assert told("reset_second_factor", "mara", "--reason", "Lost phone") == {"username": "mara", "factors": 1}
    assert not Authenticator.objects.exists()
    assert AuditEvent.objects.get(event="person.second_factor_reset").actor_name == "Gatehouse"


def test_nobody_unknown_is_reset(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        told("reset_second_factor", "nobody", "--reason", "x")
    assert ended.value.code == 1


def test_the_sweep_removes_what_is_over(mara: Somebody) -> None:
    mara.sign_in()
    mara.client.post("/admin/login/", {"username": "nobody", "password": PASSWORD})
    long_ago = timezone.now() - timedelta(days=2)
    Session.objects.update(expire_date=long_ago)
    SignInGuard.objects.filter(username="nobody").update(last_attempt_at=long_ago)
    tasks.sweep()
    assert not Session.objects.exists()
    assert not SignInGuard.objects.filter(username="nobody").exists()
    assert SignInGuard.objects.filter(username="mara").exists()
