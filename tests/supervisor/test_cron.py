"""When a rule is due: every rule, every error message, and the days on which clocks change."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.schedules.cron import BadCron, BadZone, Cron, is_unusual, zone
from tests.supervisor import former_cron

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
        ("5-5/9 9 * * *", ["2026-11-19T09:05", "2026-11-20T09:05"]),
        ("007 9 * * *", ["2026-11-19T09:07"]),
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
        ("", "Expected 5 fields, got none; write minute, hour, day of month, month, day of week."),
        (" \n", "Expected 5 fields, got none"),
        ("* * * *", "Expected 5 fields, got 4"),
        ("0 * * * * *", "Expected 5 fields, got 6; write minute, hour, day of month, month, day of week."),
        ("@reboot", "'@reboot' is not known; use @yearly"),
        ("@every 5m", "'@every 5m' is not known"),
        ("60 * * * *", "Minute: '60' is out of range; use 0 to 59"),
        ("* 24 * * *", "Hour: '24' is out of range; use 0 to 23"),
        ("* * 0 * *", "Day of month: '0' is out of range; use 1 to 31"),
        ("* * * 13 *", "Month: '13' is out of range; use 1 to 12 or JAN to DEC"),
        ("* * * * 8", "Day of week: '8' is out of range; use 0 to 7 or SUN to SAT"),
        ("* * * SMARCH *", "Month: 'SMARCH' is not known; use 1 to 12 or JAN to DEC"),
        ("MON * * * *", "Minute: 'MON' is not known"),
        # cronsim would take these.
        ("* * L * *", "Day of month: 'L' is not known; use 1 to 31"),
        ("* * LW * *", "Day of month: 'LW' is not known"),
        ("* * * * 5L", "Day of week: '5L' is not known"),
        ("* * * * MON#2", "Day of week: 'MON#2' is not known"),
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
TROLL, BEIRUT, HAVANA = "Antarctica/Troll", "Asia/Beirut", "America/Havana"


@pytest.mark.parametrize(
    ("name", "rule", "after", "times"),
    [
        # The clock goes back from 03:00 to 02:00.
        (BERLIN, "30 2 * * *", "2026-10-24T12:00", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        (BERLIN, "0 2,3 * * *", "2026-10-24T12:00", ["10-25 02:00 +0200", "10-25 03:00 +0100", "10-26 02:00 +0100"]),
        (BERLIN, "0 */2 * * *", "2026-10-25T00:00", ["10-25 02:00 +0200", "10-25 04:00 +0100"]),
        (BERLIN, "*/30 0-23 * * *", "2026-10-25T02:00", ["10-25 02:30 +0200", "10-25 03:00 +0100"]),
        (BERLIN, "*/30 * * * *", "2026-10-25T02:00", ["10-25 02:30 +0200", "10-25 02:00 +0100", "10-25 02:30 +0100"]),
        (BERLIN, "@hourly", "2026-10-25T01:30", ["10-25 02:00 +0200", "10-25 02:00 +0100", "10-25 03:00 +0100"]),
        # The clock goes forward from 02:00 to 03:00.
        (BERLIN, "30 2 * * *", "2027-03-27T12:00", ["03-28 03:00 +0200", "03-29 02:30 +0200"]),
        (BERLIN, "*/20 2 * * *", "2027-03-27T12:00", ["03-28 03:00 +0200", "03-29 02:00 +0200"]),
        (BERLIN, "30 2,3 * * *", "2027-03-27T12:00", ["03-28 03:00 +0200", "03-28 03:30 +0200", "03-29 02:30 +0200"]),
        (BERLIN, "0,50 2,3 * * *", "2027-03-28T01:59", ["03-28 03:00 +0200", "03-28 03:50 +0200", "03-29 02:00 +0200"]),
        (BERLIN, "50 2 * * *", "2027-03-28T03:10", ["03-29 02:50 +0200"]),
        (BERLIN, "*/30 * * * *", "2027-03-28T01:00", ["03-28 01:30 +0100", "03-28 03:00 +0200", "03-28 03:30 +0200"]),
        (ST_JOHNS, "15 2 * * *", "2027-03-13T12:00", ["03-14 03:00 -0230", "03-15 02:15 -0230"]),
        (ST_JOHNS, "15 1 * * *", "2026-10-31T12:00", ["11-01 01:15 -0230", "11-02 01:15 -0330"]),
        # The clock moves by half an hour only.
        (LORD_HOWE, "15,35 2 * * *", "2026-10-04T00:00", ["10-04 02:30 +1100", "10-04 02:35 +1100"]),
        (LORD_HOWE, "45 1 * * *", "2027-04-03T12:00", ["04-04 01:45 +1100", "04-05 01:45 +1030"]),
        (LORD_HOWE, "40 * * * *", "2027-04-04T01:00", ["04-04 01:40 +1100", "04-04 01:40 +1030", "04-04 02:40 +1030"]),
        # ... and by two hours.
        (TROLL, "30 1,2 * * *", "2026-03-28T12:00", ["03-29 03:00 +0200", "03-30 01:30 +0200"]),
        (TROLL, "0 1-3 * * *", "2026-10-25T00:30", ["10-25 01:00 +0200", "10-25 02:00 +0200", "10-25 03:00 +0000"]),
        ("Asia/Kathmandu", "30 2 * * *", "2026-10-25T00:00", ["10-25 02:30 +0545", "10-26 02:30 +0545"]),
        ("UTC", "30 2 * * *", "2026-10-25T00:00", ["10-25 02:30 +0000", "10-26 02:30 +0000"]),
        # At midnight, into the next day and into the day before.
        (BEIRUT, "@daily", "2026-03-28T12:00", ["03-29 01:00 +0300", "03-30 00:00 +0300"]),
        (BEIRUT, "30 0 * * SUN", "2026-03-28T12:00", ["03-29 01:00 +0300", "04-05 00:30 +0300"]),
        (HAVANA, "@daily", "2026-03-07T12:00", ["03-08 01:00 -0400", "03-09 00:00 -0400"]),
        (HAVANA, "*/30 * 8 3 *", "2026-03-07T12:00", ["03-08 01:00 -0400", "03-08 01:30 -0400"]),
        ("America/Sao_Paulo", "@daily", "2018-11-03T12:00", ["11-04 01:00 -0200", "11-05 00:00 -0200"]),
        ("America/Sao_Paulo", "30 23 * * *", "2019-02-16T12:00", ["02-16 23:30 -0200", "02-17 23:30 -0300"]),
        ("America/Sao_Paulo", "@hourly", "2019-02-16T22:00", ["02-16 23:00 -0200", "02-16 23:00 -0300"]),
        # Summer time is interrupted for a month.
        ("Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00", ["02-15 02:30 +0100", "02-16 02:30 +0000"]),
        ("Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00", ["03-22 03:00 +0100", "03-23 02:30 +0100"]),
    ],
)  # fmt: skip
def test_a_clock_change_neither_skips_nor_doubles(name: str, rule: str, after: str, times: list[str]) -> None:
    assert due(rule, name, local(after, name), len(times)) == times


@pytest.mark.parametrize(
    ("day", "rule", "count"),
    [
        ("2026-10-25", "*/5 * * * *", 300),
        ("2026-10-25", "0 * * * *", 25),
        ("2026-10-25", "@hourly", 25),
        ("2026-10-25", "*/5 0-23 * * *", 288),
        ("2026-10-25", "0 */1 * * *", 24),
        ("2026-10-25", "30 2 * * *", 1),
        ("2027-03-28", "*/5 * * * *", 276),
        ("2027-03-28", "0 * * * *", 23),
        ("2027-03-28", "*/5 0-23 * * *", 276),
        ("2027-03-28", "30 2 * * *", 1),
    ],
)
def test_a_day_of_a_clock_change_has_so_many_due_times(day: str, rule: str, count: int) -> None:
    midnight = datetime.fromisoformat(day)
    start, end = (local(str(midnight + DAY * days), BERLIN) - timedelta(seconds=1) for days in (0, 1))
    assert len(list(Cron.parse(rule).between(start, end, zone(BERLIN)))) == count


@pytest.mark.parametrize("at", ["02:00", "02:02", "02:29", "02:30", "02:59"])
@pytest.mark.parametrize(
    ("rule", "fold", "times"),
    [
        ("0 3 * * *", 0, ["10-25 03:00 +0100"]),
        ("0-59 2 * * *", 1, ["10-26 02:00 +0100"]),
        ("30 2 * * *", 1, ["10-26 02:30 +0100"]),
        ("0 * * * *", 0, ["10-25 02:00 +0100", "10-25 03:00 +0100"]),
        ("0 * * * *", 1, ["10-25 03:00 +0100", "10-25 04:00 +0100"]),
    ],
)
def test_the_search_may_start_inside_the_repeated_hour(rule: str, fold: int, times: list[str], at: str) -> None:
    assert due(rule, BERLIN, local(f"2026-10-25T{at}", BERLIN, fold=fold), len(times)) == times


@pytest.mark.parametrize("second", [0, 1, 59])
def test_no_due_time_is_earlier_than_its_question(second: int) -> None:
    """cronsim alone answers 00:30 UTC."""
    asked = datetime(2026, 10, 25, 1, 2, second, 999_999, tzinfo=UTC)
    assert Cron.parse("30 2 * * *").after(asked, zone(BERLIN)) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_a_day_that_a_place_left_out_is_due_when_the_clock_goes_on() -> None:
    apia = "Pacific/Apia"
    assert due("0 12 * * *", apia, local("2011-12-29T13:00", apia), 2) == ["12-31 00:00 +1400", "12-31 12:00 +1400"]
    assert due("0 12 30 12 *", apia, local("2011-12-29T13:00", apia), 2) == ["12-31 00:00 +1400", "12-30 12:00 +1400"]
    assert due("0 * * * *", apia, local("2011-12-29T22:30", apia), 2) == ["12-29 23:00 -1000", "12-31 00:00 +1400"]


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


@pytest.mark.parametrize(
    ("rule", "year"), [("0 0 29 2 *", 2104), ("0 * 29 2 *", 2104), ("0 0 29 2 */7", 2128), ("0 * 29 2 */7", 2128)]
)
@pytest.mark.parametrize("name", ["UTC", BERLIN])
def test_a_rare_rule_is_found_by_its_first_match(
    rule: str, year: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    matches: list[datetime] = []

    class Counted(CronSim):
        def __next__(self) -> datetime:
            matches.append(super().__next__())
            return matches[-1]

    monkeypatch.setattr("supervisor.schedules.cron.CronSim", Counted)
    assert Cron.parse(rule).after(local("2096-03-01", name), zone(name)) == local(f"{year}-02-29", name)
    assert len(matches) == 1


@pytest.mark.parametrize("rule", ["0 0 29 2 *", "0 * 29 2 *", "* * * * *"])
def test_the_end_of_the_calendar_is_said(rule: str) -> None:
    with pytest.raises(OverflowError, match="calendar ends"):
        Cron.parse(rule).after(local("9999-12-31T23:59"), zone(BERLIN))


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
    (TROLL, "2026-10-25"),
    (TROLL, "2027-03-28"),
    (HAVANA, "2026-11-01"),
    (HAVANA, "2027-03-14"),
    (BEIRUT, "2026-03-29"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("America/Sao_Paulo", "2019-02-17"),
    ("Africa/Casablanca", "2026-02-15"),
    ("Africa/Casablanca", "2026-03-22"),
    ("Pacific/Apia", "2011-12-30"),
    # Back by 23 hours.
    ("Pacific/Kwajalein", "1969-10-01"),
    ("Asia/Kathmandu", "2026-10-25"),
]


@dataclass(frozen=True)
class Reading:
    """One minute of real time."""

    at: datetime
    wall: datetime
    #: Local times that are due now under a rule for local times: this one unless repeated, and those just left out.
    due: list[datetime]


@cache
def readings(name: str, day: str) -> list[Reading]:
    """Return each minute of some days around a clock change."""
    start = local(day, "UTC") - DAY
    minutes = [start + MINUTE * count for count in range(3 * 24 * 60)]
    walls = [minute.astimezone(zone(name)).replace(tzinfo=None) for minute in minutes]
    shown: set[datetime] = set()
    rows = []
    for minute, before, wall in zip(minutes, [walls[0] - MINUTE, *walls], walls, strict=False):
        left_out = [before + MINUTE * count for count in range(1, (wall - before) // MINUTE)]
        rows.append(Reading(minute, wall, [*left_out, *({wall} - shown)]))
        shown.add(wall)
    return rows


@settings(max_examples=300, deadline=None)
@given(RULES, st.sampled_from(CHANGES), st.integers(0, 2 * 24 * 60))
def test_every_minute_around_a_clock_change_agrees(rule: Rule, change: tuple[str, str], skipped: int) -> None:
    rows = readings(*change)
    after, until = rows[skipped].at, rows[-1].at
    real_time = rule.text.split()[1] == "*"
    expected = [
        row.at
        for row in rows[skipped + 1 :]
        if any(map(rule.matches, [row.wall] if real_time else row.due))
    ]  # fmt: skip
    try:
        cron = Cron.parse(rule.text)
    except BadCron as error:
        assert "no month of this schedule" in str(error)
        assert expected == []
    else:
        assert list(cron.between(after, until, zone(change[0]))) == expected


# ── Against the implementation before cronsim ─────────────────────────────────────────────────────────────────────────
YEARS = 5
QUARTERS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=91.3) * quarter for quarter in range(4 * YEARS)]


def has_change(moment: datetime, name: str) -> bool:
    """Whether the clock changes within a day of `moment`."""
    return any(is_unusual(moment + DAY * days, zone(name)) for days in (-1, 0, 1))


@settings(max_examples=500)
@given(
    rules(field_of(0, 59), field_of(0, 23), field_of(1, 31), field_of(1, 12), field_of(0, 6))
    | rules(field_of(0, 59), field_of(0, 23), *EVERY_DAY),
    st.sampled_from(["UTC", BERLIN, ST_JOHNS, LORD_HOWE, TROLL, "Asia/Kathmandu", "Africa/Casablanca"]),
    st.timedeltas(timedelta(), timedelta(days=90)),
)
def test_due_times_away_from_clock_changes_are_those_of_the_former_rules(
    rule: Rule, name: str, offset: timedelta
) -> None:
    try:
        cron = Cron.parse(rule.text)
    except BadCron:
        with pytest.raises(former_cron.BadCron):
            former_cron.parse(rule.text)
        return
    for quarter in QUARTERS:
        start = quarter + offset
        former = list(islice(former_cron.due_times(rule.text, start, zone(name)), 8))
        current = list(cron.between(start, former[-1], zone(name)))
        if former != current:
            former, current = ([due for due in dues if not has_change(due, name)] for dues in (former, current))
        assert former == current
