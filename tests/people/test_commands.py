"""What a script does about sign-in, and what the sweep removes."""

import io
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.utils import timezone

from nhi import celery_tasks
from nhi.models import AuditEvent, SignInGuard
from tests.people.conftest import PASSWORD, Somebody, set_up_app

ROOT = Path(__file__).resolve().parents[2]
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
    assert AuditEvent.objects.get(event="person.second_factor_reset").actor_name.endswith(" at the terminal")


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
    celery_tasks.sweep()
    assert not Session.objects.exists()
    assert not SignInGuard.objects.filter(username="nobody").exists()
    assert SignInGuard.objects.filter(username="mara").exists()


def test_a_database_without_tables_says_that_there_is_no_house(tmp_path: Path) -> None:
    environ = {**os.environ, "GATEHOUSE_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"}
    environ.pop("DATABASE_URL", None)
    command = [sys.executable, "manage.py", "create_person", "me", "--json"]
    run = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, json.loads(run.stdout)["error"]) == (1, "no_house")
    assert "Traceback" not in run.stderr
