"""The system's page: what lives, what is ready, what waits, and what holds for everyone."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from nhi import hooks, process_heartbeats
from nhi.admin.system import LOST_AFTER, limits
from nhi.audit import excess_rights
from nhi.celery_tasks import tick
from nhi.models import Process
from nhi.models.processes import ProcessKind
from tests.console.axe import violations
from tests.console.conftest import NARROW, SignedIn, Visit

pytestmark = pytest.mark.capability("OPS-03")

SYSTEM = "/admin/system/"
Most = Callable[..., Any]


def heard(kind: ProcessKind, *, ago: timedelta = timedelta(0), pid: int = 7) -> None:
    now = timezone.now()
    facts = {"version": settings.VERSION, "started_at": now - timedelta(hours=1), "seen_at": now - ago}
    Process.objects.create(kind=kind, host="here", pid=pid, **facts)


def standings(client: Client) -> dict[str, str]:
    return {row.kind.value: row.badge.label for row in client.get(SYSTEM).context_data["rows"]}


def test_each_kind_of_process_is_up_late_or_lost(mara: Client) -> None:
    heard(ProcessKind.WEB)
    heard(ProcessKind.WORKER_CONTROL, ago=process_heartbeats.LATE_AFTER + timedelta(seconds=5))
    heard(ProcessKind.WORKER_RUNS, ago=LOST_AFTER + timedelta(seconds=5))
    assert standings(mara) == {
        "web": "Up",
        "worker-control": "Late",
        "worker-runs": "Lost",
        "beat": "Lost",
        "stdio-owner": "Lost",
    }


def test_a_process_that_not_every_house_has_is_missed_where_it_was_wanted(mara: Client, settings: Any) -> None:
    assert "grpc" not in standings(mara)
    settings.GRPC_PROBE = frozenset({"127.0.0.1:50051"})
    assert standings(mara)["grpc"] == "Lost"
    heard(ProcessKind.GRPC)
    assert standings(mara)["grpc"] == "Up"


def test_a_process_says_which_version_it_runs_and_since_when(mara: Client) -> None:
    heard(ProcessKind.BEAT)
    page = mara.get(SYSTEM).content.decode()
    assert f"{settings.VERSION}</td>" in page
    assert "here, 7" in page


def test_the_checks_are_those_of_readyz(mara: Client) -> None:
    checks = {check.name: check.badge.label for check in mara.get(SYSTEM).context_data["checks"]}
    assert checks.keys() == Client().get("/readyz").json()["checks"].keys()
    assert checks["broker"] == "Holds"
    assert checks["beat"] == "Does not hold"


def test_warnings_are_those_of_readyz(mara: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excess_rights, "excess_right_warnings", lambda _connection: ["The role owns <the table>."])
    assert Client().get("/readyz").json()["warnings"] == [
        {"code": "record_rights", "message": "The role owns <the table>."}
    ]
    page = mara.get(SYSTEM).content.decode()
    assert "The role owns &lt;the table&gt;." in page
    assert "To be mended" in page


def test_what_waits_is_counted_at_the_broker(mara: Client) -> None:
    before = mara.get(SYSTEM).context_data["queues"]
    assert before.keys() == {"control", "runs"}
    for _ in range(2):
        tick.apply_async(args=("worker-runs",), queue="runs", retry=False)
    assert mara.get(SYSTEM).context_data["queues"]["runs"] == before["runs"] + 2
    assert "messages" in mara.get(SYSTEM).content.decode()


def test_a_broker_that_is_silent_costs_a_sentence(mara: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    house = hooks.installation_status()
    assert house is not None
    silent = hooks.InstallationStatus(readiness=house.readiness, queues=lambda: None)
    monkeypatch.setattr(hooks, "installation_status", lambda: silent)
    assert "The broker did not tell in time." in mara.get(SYSTEM).content.decode()


def test_limits_are_those_in_force(mara: Client, settings: Any) -> None:
    page = mara.get(SYSTEM).content.decode()
    assert "of each person&#x27;s own choice" in page
    assert settings.SECRET_KEY not in page
    settings.REQUIRE_MFA = True
    assert ("Second factor", "required of everyone") in limits()


@pytest.mark.parametrize(("name", "status"), [("olga", 200), ("tom", 200), ("ada", 200)])
def test_who_may_see_it(signed_in: SignedIn, name: str, status: int) -> None:
    assert signed_in(name).get(SYSTEM).status_code == status


def test_who_has_no_role_has_no_page(seeded: None) -> None:
    assert Client().get(SYSTEM).status_code == 302


@pytest.mark.capability("CON-05")
def test_it_stays_within_its_budget(mara: Client, django_assert_max_num_queries: Most) -> None:
    for pid in range(50):
        heard(ProcessKind.WEB, pid=pid)
    with django_assert_max_num_queries(10):
        mara.get(SYSTEM)


@pytest.mark.browser
@pytest.mark.capability("CON-06")
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "dark at 360"])
def test_axe_finds_nothing(visit: Visit, options: dict[str, Any]) -> None:
    heard(ProcessKind.WEB)
    somebody = visit("mara", **options)
    somebody.open(SYSTEM)
    assert not violations(somebody.page)
    assert somebody.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not somebody.complaints
