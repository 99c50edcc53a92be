"""The charts of Home: numbers from the sums and the open hours, as pictures, sentences and tables."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from common.console.charts import CHART_RANGES
from common.db.clock import start_of_hour
from mcp.admin.home.chart_data import BUCKETS, Source, quantile
from mcp.gateway import call_statistics
from mcp.models import HealthReport
from nhi import actors
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.identities import identities
from nhi.models import CallRollup, Identity, User
from tests.console.axe import violations
from tests.console.calling import call, denied, registered
from tests.console.conftest import NARROW, SignedIn, Visit, identity
from tests.console.limits import budget, spend

pytestmark = pytest.mark.capability("AUD-02", "CON-02", "CON-05")

CHARTS, LOG = "/admin/charts/", "/admin/nhi/invocationlog/"


def summed(calls: int, *, hours: int, status: str = "success", agent: str = "deploy-bot", bucket: int = 3) -> None:
    """An hour that is over."""
    one = identity(agent)
    buckets = [0] * (len(BUCKETS) + 1)
    buckets[bucket] = calls
    CallRollup.objects.create(
        hour=start_of_hour(timezone.now()) - timedelta(hours=hours), agent_id=one.pk, agent_name=one.name,
        tool_name="github", method="create_issue", status=status, calls=calls, duration_sum=calls * 40.0,
        buckets=buckets,
    )  # fmt: skip


def context(client: Client, **query: str) -> Any:
    answer = client.get(CHARTS, query)
    assert answer.status_code == 200
    return answer.context_data


def bars(context: Any, name: str) -> list[tuple[str, int]]:
    return [(bar.name, bar.value) for one in context["tops"] if one.id == name for bar in one.bars]


def test_closed_hours_come_from_their_sums_and_open_ones_from_the_log(mara: Client) -> None:
    summed(7, hours=5)
    summed(2, hours=5, status="permission_denied")
    call(ago=5)
    denied(ago=5)
    shown = context(mara)["charts"][0]
    series = {one["name"]: one["values"] for one in shown.config["series"]}
    assert series["Success"][-6] == 7
    assert series["Denied"][-6] == 2
    assert (series["Success"][-1], series["Denied"][-1]) == (1, 1)
    assert shown.summary == "11 calls, 3 refused (27.3 %), 0 errors."


@pytest.mark.parametrize(("key", "bars"), [("24h", 24), ("7d", 28), ("30d", 30)])
def test_the_range_stands_in_the_address(mara: Client, key: str, bars: int) -> None:
    summed(5, hours=20)
    summed(9, hours=24 * 6)
    shown = context(mara, range=key)
    assert len(shown["charts"][0].rows) == bars
    assert sum(shown["charts"][0].config["series"][0]["values"]) == (5 if key == "24h" else 14)
    assert [tab.label for tab in shown["ranges"] if tab.current] == [CHART_RANGES[key].words]


def test_hours_that_the_sums_already_hold_are_not_counted_twice(mara: Client) -> None:
    summed(1, hours=6)
    for hours in (3, 4, 5):
        call(ago=hours * 3600)
    before = context(mara)["charts"][0].summary
    assert call_statistics.roll_up()
    assert context(mara)["charts"][0].summary == before == "4 calls, 0 refused (0.0 %), 0 errors."


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        ([0] * 13, 0.5, None),
        ([10, *[0] * 12], 0.5, 2.5),
        ([0, 0, 0, 100, *[0] * 9], 0.95, 48.8),
        ([50, 0, 0, 50, *[0] * 9], 0.5, 5.0),
        ([*[0] * 12, 3], 0.5, 30000.0),
    ],
)
def test_quantiles_are_read_from_latency_classes(buckets: list[int], share: float, expected: float | None) -> None:
    assert quantile(buckets, share) == expected


def test_refusals_of_the_gate_say_nothing_of_latency(mara: Client) -> None:
    summed(10, hours=5, bucket=3)
    summed(90, hours=5, status="permission_denied", bucket=0)
    latency = context(mara)["charts"][1]
    assert latency.config["series"][0]["values"][-6] == 37.5


def test_who_drives_it_and_why_refused_lead_to_the_log(mara: Client) -> None:
    summed(7, hours=5)
    summed(3, hours=5, agent="planner")
    for _ in range(2):
        denied(ago=5)
    shown = context(mara, range="7d")
    assert bars(shown, "top-agents") == [("deploy-bot", 9), ("planner", 3)]
    assert bars(shown, "top-tools") == [("github.create_issue", 12)]
    assert bars(shown, "reasons") == [("no_grant", 2)]
    page = mara.get(CHARTS, {"range": "7d"}).content.decode()
    assert f"{LOG}?agent=deploy-bot&amp;span=7d" in page
    assert f"{LOG}?outcome=permission_denied%3Ano_grant&amp;span=7d" in page
    assert "9, 22.2 % refused" in page
    for one in shown["charts"][0].rows[:1]:
        assert mara.get(one["url"]).status_code == 200


def test_a_bar_leads_to_the_calls_of_its_hour(mara: Client) -> None:
    mara.cookies["zone"] = "Asia/Kathmandu"
    row = call(ago=5)
    shown = context(mara)["charts"][0]
    assert [one["id"] for one in mara.get(shown.rows[-1]["url"]).context_data["rows"]] == [str(row.pk)]
    denied_only = mara.get(shown.rows[-1]["url"] + shown.config["series"][1]["query"])
    assert denied_only.context_data["rows"] == []


def test_more_than_eight_are_one_line(mara: Client) -> None:
    names = [one.name for one in _agents(10)]
    for number, name in enumerate(names):
        summed(100 - number, hours=5, agent=name)
    shown = bars(context(mara), "top-agents")
    assert len(shown) == 9
    assert shown[-1] == ("2 others", 183)


def _agents(count: int) -> list[Identity]:
    owner = User.objects.get(username="mara")
    return [identities.create(actor=SYSTEM, kind=Kind.AGENT, name=f"a-{n}", owner=owner) for n in range(count)]


def test_budgets_that_run_out_and_servers_that_were_down(mara: Client) -> None:
    tool = registered()
    near, fine = budget(calls_per_hour=60), budget(target=identity("planner"), calls_per_hour=60)
    spend(near, hour=48)
    spend(fine, hour=3)
    report = {"server": tool.server, "handshake_success": False}
    now = timezone.now()
    HealthReport.objects.create(timestamp=now - timedelta(hours=2), status="Unhealthy", **report)
    HealthReport.objects.create(timestamp=now - timedelta(hours=2), status="Healthy", **report)
    HealthReport.objects.create(timestamp=now, status="Healthy", **report)
    shown = context(mara)
    assert [(one.name, one.lines[0].used_words) for one in shown["burning"]] == [
        ("Agent deploy-bot", "48 of 60 this hour")
    ]
    assert [(row.name, row.words) for row in shown["health"]] == [("github", "1 of 24 hours with trouble")]
    assert [cell.tone for cell in shown["health"][0].cells[-3:]] == ["bad", "still", "good"]


def test_charts_without_calls_say_why(mara: Client) -> None:
    assert "No call of a tool is recorded yet" in mara.get(CHARTS).content.decode()
    call(ago=50 * 3600)
    page = mara.get(CHARTS)
    assert "longer ago than these charts look back" in page.content.decode()
    assert "No call in the last" not in mara.get(f"{CHARTS}?range=7d").content.decode()


def test_owners_see_the_numbers_of_theirs_only(signed_in: SignedIn) -> None:
    summed(7, hours=5)
    summed(3, hours=5, agent="writer")
    olga = signed_in("olga")
    Identity.objects.update(backup_owner=None)
    User.objects.get(username="olga").groups.clear()
    shown = context(olga)
    assert bars(shown, "top-agents") == [("writer", 3)]
    assert shown["burning"] == shown["health"] == []
    ada = signed_in("ada")
    User.objects.get(username="ada").groups.clear()
    assert ada.get(CHARTS).status_code == 404
    assert CHARTS not in ada.get("/admin/").content.decode()


def test_home_stays_light_and_the_charts_ask_once_each(mara: Client) -> None:
    mara.get("/admin/")
    for path, most in (("/admin/", 12), (CHARTS, 12)):
        summed(1, hours=6 if path == CHARTS else 5)
        cache.clear()
        with CaptureQueriesContext(connection) as seen:
            assert mara.get(path).status_code == 200
        assert len(seen) <= most, [one["sql"][:120] for one in seen]


def test_the_sums_are_read_by_hour_whatever_their_number(db: None, seeded: None) -> None:
    with CaptureQueriesContext(connection) as seen:
        source = Source(actors.person(User.objects.get(username="mara")), CHART_RANGES["30d"])
        source.bars()
    assert "GROUP BY" in seen[-1]["sql"]
    assert source.begins.minute == 0
    assert datetime.now(UTC) - source.begins <= timedelta(days=30)


@pytest.mark.browser
def test_home_draws_its_charts_and_a_bar_leads_to_the_log(visit: Visit) -> None:
    mara = visit("mara")
    summed(7, hours=5)
    call(ago=1)
    mara.open("/admin/?range=7d")
    page = mara.page
    page.get_by_role("heading", name="Is anything different lately?").wait_for()
    canvas = page.locator("canvas[data-chart]").first
    assert canvas.get_attribute("aria-label").endswith("8 calls, 0 refused (0.0 %), 0 errors.")
    box = canvas.bounding_box()
    assert box["height"] >= 200
    canvas.click(position={"x": box["width"] - 24, "y": box["height"] / 2})
    page.wait_for_url("**/invocationlog/?since=**")
    assert not mara.complaints
    assert not [url for url in mara.requests if not url.startswith(mara.base) and not url.startswith("data:")]


@pytest.mark.browser
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "narrow, dark"])
def test_charts_are_accessible_and_fit(visit: Visit, options: dict[str, Any]) -> None:
    mara = visit("mara", **options)
    tool = registered()
    summed(700, hours=5)
    denied(ago=5)
    spend(budget(calls_per_hour=60), hour=60)
    HealthReport.objects.create(server=tool.server, status="Unhealthy", handshake_success=False)
    for path in (CHARTS, "/admin/"):
        mara.open(path)
        mara.page.locator("canvas[data-chart]").first.wait_for()
        mara.page.get_by_text("The numbers").first.click()
        assert not violations(mara.page), path
        assert mara.page.evaluate("document.documentElement.scrollWidth === innerWidth"), path
    assert not mara.complaints


def test_the_first_steps_of_the_gateway_tick_themselves(db: None, seeded: None, mara: Client) -> None:
    def steps() -> dict[str, bool]:
        return {step.title: step.done for step in mara.get("/admin/").context["steps"]}

    before = steps()
    assert [before[name] for name in ("Add a server", "Approve its tools", "Make a first call")] == [False] * 3
    registered()
    assert steps()["Add a server"]
    denied()
    assert not steps()["Make a first call"]
    call()
    assert steps()["Make a first call"]
