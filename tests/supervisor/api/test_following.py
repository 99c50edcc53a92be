"""Waiting for runs and following their output, as the web process serves it: no thread waits, no piece is missed."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nhi.identities import lifecycle
from supervisor.api import events, following
from supervisor.models import Agent, Execution, OutputChunk
from tests.api.callers import Caller
from tests.api.conftest import Stage
from tests.nhi import cast
from tests.supervisor.api.door import LONGEST, Answer, Door, Event
from tests.supervisor.waiting import until_over, until_running

pytestmark = [pytest.mark.capability("SUP-10"), pytest.mark.django_db(transaction=True)]
Submit = Callable[..., Execution]


def in_loop(work: Awaitable[Any]) -> Any:
    async def whole() -> Any:
        async with asyncio.timeout(2 * LONGEST):
            return await work

    return asyncio.run(whole())


def text_of(heard: list[Event], stream: str = "out") -> str:
    return "".join(one.data["text"] for one in heard if one.name == "output" and one.data["stream"] == stream)


def write(run: Execution, *texts: str) -> None:
    after = OutputChunk.objects.filter(execution=run).count()
    for seq, text in enumerate(texts, after + 1):
        OutputChunk.objects.create(execution=run, seq=seq, stream="out", at=run.created_at, text=text)


async def all_of(answer: Answer) -> list[Event]:
    return [event async for event in answer.events()]


@pytest.mark.both_databases
@pytest.mark.usefixtures("runner")
def test_a_wait_ends_with_the_run(
    stage: Stage, waits: Agent, submit: Submit, door: Door, shared_directory: Path
) -> None:
    run = submit(waits)

    async def ask() -> dict[str, Any]:
        waiting = asyncio.create_task(door.get(f"executions/{run.pk}/wait", stage.admin.token, "timeout=20"))
        early = await door.get(f"executions/{run.pk}/wait", stage.admin.token, "timeout=0")
        assert (await early.json())["status"] is None
        assert not waiting.done()
        (shared_directory / "go").touch()
        answer = await waiting
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        return await answer.json()

    body = in_loop(ask())
    assert (body["status"], body["state"], body["result"]["output"]) == ("success", "idle", "begun\nended\n")
    assert stage.admin.get(f"supervisor/executions/{run.pk}/wait").body == body


@pytest.mark.both_databases
def test_a_wait_ends_by_itself_or_with_its_client(stage: Stage, echo: Agent, submit: Submit, door: Door) -> None:
    run = submit(echo)

    async def ask() -> None:
        for said in ("timeout=0.3", "timeout=0.3s", "timeout=0"):
            answer = await door.get(f"executions/{run.pk}/wait", stage.admin.token, said)
            body = await answer.json()
            assert (answer.status, body["state"], body["status"], body["result"]) == (200, "queued", None, None)

    in_loop(ask())
    for wrong in ("x", "-1", "1e3", ""):
        assert stage.admin.get(f"supervisor/executions/{run.pk}/wait", timeout=wrong).fields == ["timeout"]


def test_a_wait_is_answered_before_its_process_ends(
    stage: Stage, echo: Agent, submit: Submit, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, looked = submit(echo), asyncio.Event()
    monkeypatch.setattr(following, "LOOK_EVERY", LONGEST)
    monkeypatch.setattr(following.Followed, "_is_there", lambda *_: _seen(looked))

    async def ask() -> dict[str, Any]:
        waiting = asyncio.create_task(door.get(f"executions/{run.pk}/wait", stage.admin.token))
        await looked.wait()
        [asked] = door.asked
        assert asked.task is not None
        asked.task.cancel()
        return await (await waiting).json()

    assert in_loop(ask())["state"] == "queued"


async def _seen(looked: asyncio.Event) -> bool:
    looked.set()
    return False


@pytest.mark.parametrize("what", ["wait", "output"])
def test_whoever_may_not_is_told_at_once(stage: Stage, echo: Agent, submit: Submit, door: Door, what: str) -> None:
    run = submit(echo)
    ask = Caller(stage.stranger.token).get(f"supervisor/executions/{run.pk}/{what}")
    assert ask.is_refused(404, "NotFound")

    async def refused() -> list[int]:
        strangers = ("", "nhi_usr_x_y", stage.stranger.token)
        return [(await door.get(f"executions/{run.pk}/{what}", token)).status for token in strangers]

    assert in_loop(refused()) == [401, 401, 404]


@pytest.mark.both_databases
@pytest.mark.usefixtures("runner")
def test_output_comes_as_it_is_written(
    stage: Stage, waits: Agent, submit: Submit, door: Door, shared_directory: Path
) -> None:
    run = submit(waits)

    async def follow() -> tuple[Answer, list[Event]]:
        answer = await door.get(f"executions/{run.pk}/output", stage.admin.token)
        heard = []
        async for event in answer.events():
            heard.append(event)
            if text_of(heard) == "begun\n":
                (shared_directory / "go").touch()
        return answer, heard

    answer, heard = in_loop(follow())
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert "content-length" not in answer.headers
    assert text_of(heard) == "begun\nended\n"
    pieces = [event for event in heard if event.name == "output"]
    assert [piece.data["seq"] for piece in pieces] == [int(piece.id) for piece in pieces] == [1, 2]
    assert all(piece.data.keys() == {"seq", "stream", "at", "text"} for piece in pieces)
    states = [event.data["state"] for event in heard if event.name == "state"]
    assert states[-1] == "idle"
    assert "running" in states
    assert heard[-1] == Event("end", {"state": "idle", "status": "success"})
    assert [event.name for event in heard].count("end") == 1


@pytest.mark.both_databases
@pytest.mark.usefixtures("runner")
def test_whoever_comes_back_misses_nothing_and_hears_nothing_twice(
    stage: Stage, waits: Agent, submit: Submit, door: Door, shared_directory: Path
) -> None:
    run = submit(waits)
    place = f"executions/{run.pk}/output"

    async def until_begun(**headers: str) -> list[Event]:
        answer, heard = await door.get(place, stage.admin.token, **headers), []
        async for event in answer.events():
            heard.append(event)
            if text_of(heard) == "begun\n":
                await answer.leave()
                return heard
        raise AssertionError("It ended before it began.")

    before = in_loop(until_begun())
    last = [event.id for event in before if event.id][-1]
    (shared_directory / "go").touch()
    until_over(run)

    async def again(query: str = "", **headers: str) -> list[Event]:
        return await all_of(await door.get(place, stage.admin.token, query, **headers))

    for rest in (in_loop(again(last_event_id=last)), in_loop(again(f"after={last}"))):
        assert text_of(before) + text_of(rest) == "begun\nended\n"
        assert [event.name for event in rest] == ["output", "state", "end"]
    assert text_of(in_loop(again())) == "begun\nended\n"
    assert [event.name for event in in_loop(again("after=99"))] == ["state", "end"]
    for wrong in ("x", "-1", "²", "99999999999"):
        refused = stage.admin.send("GET", f"supervisor/{place}", **{"Last-Event-ID": wrong.encode().decode("latin-1")})
        assert refused.fields == ["Last-Event-ID"]
    assert stage.admin.get(f"supervisor/{place}", after="x", format="xml", stream="x").fields == [
        "format", "stream", "after",
    ]  # fmt: skip


def test_many_pieces_are_told_in_their_order(stage: Stage, echo: Agent, submit: Submit, door: Door) -> None:
    run = submit(echo)
    texts = [f"{number}\r\n\n" for number in range(2 * events.MOST)]
    write(run, *texts)
    Execution.objects.filter(pk=run.pk).update(state="idle", status="success")

    async def follow() -> list[Event]:
        return await all_of(await door.get(f"executions/{run.pk}/output", stage.admin.token))

    heard = in_loop(follow())
    assert text_of(heard) == "".join(texts)
    assert [event.name for event in heard[-2:]] == ["state", "end"]


def test_a_quiet_stream_says_that_it_lives(
    stage: Stage, echo: Agent, submit: Submit, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ALIVE_EVERY", 0.1)
    run = submit(echo)

    async def listen() -> str:
        answer, heard = await door.get(f"executions/{run.pk}/output", stage.admin.token), ""
        async for piece in answer.pieces():
            heard += piece
            if heard.count(events.ALIVE) == 2:
                await answer.leave()
                break
        return heard

    assert in_loop(listen()).startswith('event: state\ndata: {"state": "queued", "status": null}\n\n')


def test_a_stream_ends_when_its_reader_may_no_longer_read(
    stage: Stage, echo: Agent, submit: Submit, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ALIVE_EVERY", 0.1)
    run, admin = submit(echo), cast.admin()

    async def follow() -> list[Event]:
        answer = await door.get(f"executions/{run.pk}/output", stage.agent.token)
        stop = asyncio.to_thread(lifecycle.suspend, actor=admin, identity=stage.bot, reason="Odd calls")
        _, heard = await asyncio.gather(stop, all_of(answer))
        return heard

    assert "end" not in [event.name for event in in_loop(follow())]


def test_a_stream_outlasts_a_database_that_is_away_when_its_reader_is_judged(
    stage: Stage, echo: Agent, submit: Submit, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ALIVE_EVERY", 0.1)
    run, ask, judged = submit(echo), following.Followed._ask, []

    async def away(self: following.Followed, scope: dict[str, Any], offer: following.Offer) -> following.Reply:
        if not offer.again:
            return await ask(self, scope, offer)
        judged.append(offer)
        await Execution.objects.filter(pk=run.pk).aupdate(state="idle", status="success")
        return following.Reply(offer, [{"status": 503}])

    monkeypatch.setattr(following.Followed, "_ask", away)

    async def follow() -> list[Event]:
        return await all_of(await door.get(f"executions/{run.pk}/output", stage.admin.token))

    assert in_loop(follow())[-1].name == "end"
    assert judged


def test_a_caller_follows_so_many_runs_at_once(
    stage: Stage, echo: Agent, submit: Submit, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MOST_STREAMS", 1)
    place = f"executions/{submit(echo).pk}/output"

    async def follow() -> None:
        first = await door.get(place, stage.admin.token)
        refused = await door.get(place, stage.admin.token)
        body = await refused.json()
        assert (refused.status, refused.headers["retry-after"], body["error_code"]) == (429, "15", "RateLimitExceeded")
        assert body["details"]["reason"] == "too_many_streams"
        others = await door.get(place, stage.agent.token)
        await first.leave()
        again = await door.get(place, stage.admin.token)
        assert (others.status, again.status) == (200, 200)
        for answer in (others, again):
            await answer.leave()

    in_loop(follow())


@pytest.mark.usefixtures("runner")
def test_the_text_is_what_was_written_by_now(
    stage: Stage, make_agent: Callable[..., Agent], submit: Submit, shared_directory: Path
) -> None:
    script = '#!/bin/sh\necho one\necho odd >&2\nuntil [ -e "$1/go" ]; do sleep 0.02; done\n'
    agent = make_agent(script, identity=stage.bot, cli_args=[str(shared_directory)])
    run = until_running(submit(agent))
    place = f"/api/nhi/supervisor/executions/{run.pk}/output"
    bearer = {"Authorization": f"Bearer {stage.admin.token}"}
    (shared_directory / "go").touch()
    until_over(run)

    def text(**query: str) -> tuple[str, str]:
        answer = stage.admin.client.get(place, {"format": "text", **query}, headers=bearer)
        return answer.headers["Content-Type"], answer.content.decode()

    plain = "text/plain; charset=utf-8"
    assert text() == text(stream="out") == (plain, "one\n")
    assert text(stream="err") == (plain, "odd\n")
    assert sorted(text(stream="all")[1].split()) == ["odd", "one"]


@pytest.mark.capability("CON-01")
def test_an_auditor_who_waits_is_on_record_once(stage: Stage, echo: Agent, submit: Submit, door: Door) -> None:
    run, auditor = submit(echo), stage.person("ada", "auditor")

    async def ask() -> int:
        return (await door.get(f"executions/{run.pk}/wait", auditor.token, "timeout=0.1")).status

    assert in_loop(ask()) == 200
    assert cast.events(event="page.opened") == ["page.opened"]
