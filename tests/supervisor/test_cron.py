"""Schedules are due by the clock on the wall: every rule, every refusal, and the days on which clocks change."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.schedules.cron import BadCron, BadZone, Cron, is_unusual, zone

pytestmark = pytest.mark.capability("SUP-09")
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def local(text: str, name: str = "UTC", fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone(name), fold=fold).astimezone(UTC)


def due(rule: str, name: str, after: datetime, count: int) -> list[str]:
    """The next times as that zone's clock shows them, with how far it is from UTC."""
    found, cron = [after], Cron.parse(rule)
    for _ in range(count):
        found.append(cron.after(found[-1], zone(name)))
    return [moment.astimezone(zone(name)).strftime("%m-%d %H:%M %z") for moment in found[1:]]


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        ("*/15 * * * *", ["2026-11-18T10:15", "2026-11-18T10:30", "2026-11-18T10:45", "2026-11-18T11:00"]),
        ("1-10/4 12 * * *", ["2026-11-18T12:01", "2026-11-18T12:05", "2026-11-18T12:09", "2026-11-19T12:01"]),
        ("0 9 * * MON-fri", ["2026-11-19T09:00", "2026-11-20T09:00", "2026-11-23T09:00"]),
        ("0 9 * * 0", ["2026-11-22T09:00", "2026-11-29T09:00"]),
        ("0 9 * * 7", ["2026-11-22T09:00", "2026-11-29T09:00"]),
        ("0 9 * * 6-7", ["2026-11-21T09:00", "2026-11-22T09:00", "2026-11-28T09:00"]),
        ("0 9 * * sat-sun", ["2026-11-21T09:00", "2026-11-22T09:00", "2026-11-28T09:00"]),
        ("5,10 0 1 jan,Feb *", ["2027-01-01T00:05", "2027-01-01T00:10", "2027-02-01T00:05"]),
        # Either day is enough where both are restricted ...
        ("0 0 20 * FRI", ["2026-11-20T00:00", "2026-11-27T00:00", "2026-12-04T00:00", "2026-12-11T00:00"]),
        ("0 0 1-31 * MON", ["2026-11-19T00:00", "2026-11-20T00:00"]),
        # ... and a star, with a step too, restricts nothing.
        ("0 0 */10 * MON", ["2026-12-21T00:00", "2027-01-11T00:00"]),
        ("0 0 31 * *", ["2026-12-31T00:00", "2027-01-31T00:00", "2027-03-31T00:00"]),
        ("@hourly", ["2026-11-18T11:00", "2026-11-18T12:00"]),
        ("@daily", ["2026-11-19T00:00", "2026-11-20T00:00"]),
        ("@Midnight", ["2026-11-19T00:00", "2026-11-20T00:00"]),
        ("@weekly", ["2026-11-22T00:00", "2026-11-29T00:00"]),
        ("@monthly", ["2026-12-01T00:00", "2027-01-01T00:00"]),
        ("@yearly", ["2027-01-01T00:00", "2028-01-01T00:00"]),
        ("@annually", ["2027-01-01T00:00", "2028-01-01T00:00"]),
    ],
)
def test_a_rule_is_due_when_it_says(rule: str, times: list[str]) -> None:
    found = Cron.parse(rule).between(local("2026-11-18T10:00"), local("2099-01-01"), zone("UTC"))
    assert list(islice(found, len(times))) == [local(time) for time in times]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("", "This is empty. Give five fields"),
        (" \n", "This is empty"),
        ("* * * *", "Not five fields but 4"),
        ("0 * * * * *", "Not five fields but 6. Give five fields: minute, hour, day of month, month, day of week"),
        ("@reboot", "'@reboot' is not known; use @yearly"),
        ("@every 5m", "'@every 5m' is not known"),
        ("60 * * * *", "Minute: '60' is out of range; use 0 to 59"),
        ("* 24 * * *", "Hour: '24' is out of range; use 0 to 23"),
        ("* * 0 * *", "Day of month: '0' is out of range; use 1 to 31"),
        ("* * * 13 *", "Month: '13' is out of range; use 1 to 12 or JAN to DEC"),
        ("* * * * 8", "Day of week: '8' is out of range; use 0 to 7 or SUN to SAT"),
        ("* * * SMARCH *", "Month: 'SMARCH' is not known; use 1 to 12 or JAN to DEC"),
        ("MON * * * *", "Minute: 'MON' is not known"),
        ("* * L * *", "Day of month: 'L' is not known"),
        ("? * * * *", "Minute: '?' is not known"),
        ("\u0663 * * * *", "Minute: '\u0663' is not known"),
        ("\x1b[2J * * * *", r"Minute: '\x1b[2J' is not known"),
        ("-5 * * * *", "Minute: '' is not known"),
        ("1,,2 * * * *", "Minute: '' is not known"),
        ("1-2-3 * * * *", "Minute: '2-3' is not known"),
        ("* 17-9 * * *", "Hour: '17-9' runs backwards; write 17-23,0-9"),
        ("* * * * FRI-MON", "Day of week: 'FRI-MON' runs backwards; write 5-7,0-1"),
        ("*/0 * * * *", "Minute: '*/0' has no step; use 1 to 59"),
        ("*/ * * * *", "Minute: '*/' has no step"),
        ("*/90 * * * *", "Minute: '*/90' has no step"),
        ("5/15 * * * *", "Minute: '5/15' has a step without a range; write 5-59/15"),
        ("0 0 30 2 *", "Day of month: no month of this schedule has a day 30"),
        ("0 0 31 4,6,9,11 */2", "Day of month: no month of this schedule has a day 31"),
        ("0" * 201, "This has 201 characters; use at most 200"),
    ],
)
def test_what_is_no_schedule_is_refused_with_a_way_out(rule: str, says: str) -> None:
    with pytest.raises(BadCron, match=re.escape(says)):
        Cron.parse(rule)


@given(st.text(max_size=220) | st.text("0123456789*/-, @MONJAN", max_size=40))
def test_whatever_is_written_is_a_schedule_or_one_sentence(rule: str) -> None:
    try:
        assert Cron.parse(rule).words()
    except BadCron as refused:
        assert str(refused).isprintable()
        assert len(str(refused)) < 200


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0-59/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", "at minutes 0, 7, 14 … 56 of every hour"),
        ("30 * * * *", "at minute 30 of every hour"),
        ("* 9 * * *", "every minute from 09:00 to 09:59"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45 on Monday to Friday"),
        ("*/10 9,12,17 * * *", "every 10 minutes of hours 9, 12 and 17"),
        ("5,10,20 1-5,8 * * *", "at minutes 5, 10 and 20 of hours 1 to 5 and 8"),
        ("@hourly", "every hour"),
        ("0 */2 * * *", "every 2 hours"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
        ("0 */5 * * *", "every 5 hours from 00:00 to 20:00"),
        ("30 2 * * *", "at 02:30 every day"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("0 9 * * MON-FRI", "at 09:00 on Monday to Friday"),
        ("0 9 * * 5-7", "at 09:00 on Friday to Sunday"),
        ("0 9 * * 0,6", "at 09:00 on Saturday and Sunday"),
        ("@monthly", "at 00:00 on day 1 of the month"),
        ("0 0 1,15 * *", "at 00:00 on days 1 and 15 of the month"),
        ("@yearly", "at 00:00 on day 1 in January"),
        ("0 12 * 6-8 *", "at 12:00 every day in June to August"),
        ("0 0 13 * FRI", "at 00:00 on day 13 of the month or on Friday"),
        ("0 0 1-31 * FRI", "at 00:00 every day"),
        ("0 0 */2 * MON", "at 00:00 on Monday if it is day 1, 3, 5 … 31 of the month"),
    ],
)
def test_a_rule_is_said_in_words(rule: str, words: str) -> None:
    assert Cron.parse(rule).words() == words


BERLIN, ST_JOHNS, LORD_HOWE = "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("name", "rule", "after", "times"),
    [
        # The clock goes back from 03:00 to 02:00.
        (BERLIN, "30 2 * * *", "2026-10-24T12:00", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        (BERLIN, "0 2,3 * * *", "2026-10-24T12:00", ["10-25 02:00 +0200", "10-25 03:00 +0100", "10-26 02:00 +0100"]),
        (BERLIN, "*/30 * * * *", "2026-10-25T02:00", ["10-25 02:30 +0200", "10-25 03:00 +0100", "10-25 03:30 +0100"]),
        # The clock goes forward from 02:00 to 03:00.
        (BERLIN, "30 2 * * *", "2027-03-27T12:00", ["03-28 03:30 +0200", "03-29 02:30 +0200"]),
        (BERLIN, "30 2,3 * * *", "2027-03-27T12:00", ["03-28 03:30 +0200", "03-29 02:30 +0200"]),
        (BERLIN, "50 2 * * *", "2027-03-28T03:10", ["03-28 03:50 +0200", "03-29 02:50 +0200"]),
        (BERLIN, "*/30 * * * *", "2027-03-28T01:00", ["03-28 01:30 +0100", "03-28 03:00 +0200", "03-28 03:30 +0200"]),
        (ST_JOHNS, "15 2 * * *", "2027-03-13T12:00", ["03-14 03:15 -0230", "03-15 02:15 -0230"]),
        (ST_JOHNS, "15 1 * * *", "2026-10-31T12:00", ["11-01 01:15 -0230", "11-02 01:15 -0330"]),
        # By half an hour only: a moved time may come after one that is real.
        (LORD_HOWE, "15,35 2 * * *", "2026-10-04T00:00", ["10-04 02:35 +1100", "10-04 02:45 +1100"]),
        (LORD_HOWE, "45 1 * * *", "2027-04-03T12:00", ["04-04 01:45 +1100", "04-05 01:45 +1030"]),
        ("Asia/Kathmandu", "30 2 * * *", "2026-10-25T00:00", ["10-25 02:30 +0545", "10-26 02:30 +0545"]),
        ("UTC", "30 2 * * *", "2026-10-25T00:00", ["10-25 02:30 +0000", "10-26 02:30 +0000"]),
        # At midnight, into the next day.
        ("Asia/Beirut", "@daily", "2026-03-28T12:00", ["03-29 01:00 +0300", "03-30 00:00 +0300"]),
    ],
)  # fmt: skip
def test_a_clock_change_neither_skips_nor_doubles(name: str, rule: str, after: str, times: list[str]) -> None:
    assert due(rule, name, local(after, name), len(times)) == times


@pytest.mark.parametrize("at", ["02:00", "02:29", "02:30", "02:59"])
def test_the_second_of_a_doubled_hour_is_nobodys_turn(at: str) -> None:
    assert due("30 2 * * *", BERLIN, local(f"2026-10-25T{at}", BERLIN, fold=1), 1) == ["10-26 02:30 +0100"]


def test_a_day_that_a_place_left_out_is_made_up_for() -> None:
    assert due("0 12 * * *", "Pacific/Apia", local("2011-12-29T13:00", "Pacific/Apia"), 2) == [
        "12-31 12:00 +1400",
        "01-01 12:00 +1400",
    ]


@pytest.mark.parametrize(
    ("day", "name", "unusual"),
    [
        ("2026-10-25T00:00", BERLIN, True),
        ("2026-10-25T23:59", BERLIN, True),
        ("2026-10-24T23:59", BERLIN, False),
        ("2026-10-26T00:00", BERLIN, False),
        ("2027-03-28T03:30", BERLIN, True),
        ("2026-10-04T12:00", LORD_HOWE, True),
        ("2026-03-29T12:00", "Asia/Beirut", True),
        ("2026-10-25T12:00", "Asia/Kathmandu", False),
        ("2026-10-25T12:00", "UTC", False),
    ],
)
def test_days_with_a_clock_change_are_told_apart(day: str, name: str, unusual: bool) -> None:
    assert is_unusual(local(day, name), zone(name)) is unusual


@pytest.mark.parametrize(
    "name", ["", "Vienna", "europe/berlin", "localtime", "/etc/localtime", "../zoneinfo/UTC", "posix/UTC", "U" * 300]
)
def test_an_unknown_zone_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(BadZone, match=r"is no time zone; choose one like Europe/Vienna or UTC\.$") as refused:
        zone(name)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(("rule", "year"), [("0 0 29 2 *", 2104), ("0 0 29 2 */7", 2128)])
def test_a_rare_rule_is_found_without_walking_there(rule: str, year: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[datetime] = []
    walls = Cron._walls

    def counted(cron: Cron, start: datetime) -> Iterator[datetime]:
        for wall in walls(cron, start):
            walked.append(wall)
            yield wall

    monkeypatch.setattr(Cron, "_walls", counted)
    assert Cron.parse(rule).after(local("2096-03-01"), zone("UTC")) == local(f"{year}-02-29")
    assert len(walked) <= 2


def test_the_end_of_the_calendar_is_said() -> None:
    with pytest.raises(OverflowError, match="calendar ends"):
        Cron.parse("0 0 29 2 *").after(local("9997-01-01"), zone("UTC"))


# ── Against every minute of the days around a change ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Rule:
    """Numbers, and one way to write them."""

    values: list[frozenset[int]]
    text: str

    def matches(self, wall: datetime) -> bool:
        minutes, hours, days, months, weekdays = self.values
        stars = [field.startswith("*") for field in self.text.split()]
        on = [wall.day in days, wall.isoweekday() % 7 in weekdays]
        is_day = all(on) if stars[2] or stars[4] else any(on)
        return wall.minute in minutes and wall.hour in hours and wall.month in months and is_day


def field_of(low: int, high: int) -> st.SearchStrategy[tuple[frozenset[int], str]]:
    numbers = st.integers(low, high)
    every = st.just((frozenset(range(low, high + 1)), "*"))
    stars = st.integers(1, high).map(lambda step: (frozenset(range(low, high + 1, step)), f"*/{step}"))
    ranges = st.tuples(numbers, numbers, st.integers(1, min(high, 9))).map(
        lambda drawn: (
            frozenset(range(min(drawn[:2]), max(drawn[:2]) + 1, drawn[2])),
            f"{min(drawn[:2])}-{max(drawn[:2])}/{drawn[2]}",
        )
    )
    return every | stars | ranges | some_of(numbers)


def some_of(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[frozenset[int], str]]:
    return st.sets(numbers, min_size=1, max_size=4).map(lambda some: (frozenset(some), ",".join(map(str, some))))


def rules(*fields: st.SearchStrategy[tuple[frozenset[int], str]]) -> st.SearchStrategy[Rule]:
    return st.tuples(*fields).map(lambda drawn: Rule([one for one, _ in drawn], " ".join(text for _, text in drawn)))


EVERY_DAY = [st.just((frozenset(range(low, high + 1)), "*")) for low, high in ((1, 31), (1, 12), (0, 6))]
RULES = (
    # Clocks are changed at night: few rules of any kind would be due then.
    rules(some_of(st.sampled_from([0, 10, 15, 30, 40, 45])), some_of(st.integers(0, 4)), *EVERY_DAY)
    | rules(field_of(0, 59), field_of(0, 23), *EVERY_DAY)
    | rules(field_of(0, 59), field_of(0, 23), field_of(1, 31), field_of(1, 12), field_of(0, 6))
)
CHANGES = [
    (BERLIN, "2026-10-25"),
    (BERLIN, "2027-03-28"),
    (ST_JOHNS, "2026-11-01"),
    (ST_JOHNS, "2027-03-14"),
    (LORD_HOWE, "2026-10-04"),
    (LORD_HOWE, "2027-04-04"),
    ("America/Havana", "2026-11-01"),
    ("Asia/Beirut", "2026-03-29"),
    ("Pacific/Apia", "2011-12-30"),
    ("Asia/Kathmandu", "2026-10-25"),
]


@cache
def clock(name: str, day: str) -> list[tuple[datetime, list[datetime]]]:
    """Each minute of some days, with the wall times whose turn it is: its own when new, and those it makes up for."""
    start = local(day, "UTC") - DAY
    seen: set[datetime] = set()
    turns: dict[datetime, list[datetime]] = {}
    minutes = [start + MINUTE * count for count in range(3 * 24 * 60)]
    walls = [minute.astimezone(zone(name)).replace(tzinfo=None) for minute in minutes]
    for (minute, wall), (_, following) in pairwise(zip(minutes, walls, strict=True)):
        if wall not in seen:
            turns.setdefault(minute, []).append(wall)
        seen.add(wall)
        missing = (following - wall) // MINUTE - 1
        for nth in range(1, missing + 1):
            turns.setdefault(minute + nth * MINUTE, []).append(wall + nth * MINUTE)
    return sorted(turns.items())


@settings(max_examples=200, deadline=None)
@given(RULES, st.sampled_from(CHANGES), st.integers(0, 2 * 24 * 60))
def test_every_minute_agrees(rule: Rule, change: tuple[str, str], skipped: int) -> None:
    name, day = change
    turns = clock(name, day)
    after, until = turns[skipped % len(turns)][0], turns[-1][0]
    expected = [minute for minute, walls in turns if after < minute <= until and any(map(rule.matches, walls))]
    try:
        cron = Cron.parse(rule.text)
    except BadCron as refused:
        assert "no month of this schedule" in str(refused)
        assert expected == []
    else:
        assert list(cron.between(after, until, zone(name))) == expected
