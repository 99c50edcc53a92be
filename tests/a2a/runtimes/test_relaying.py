"""What a program prints is told of in its task while it runs: in order, once, and no more than fits."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from a2a import endpoint_changes, relaying, writer
from a2a.admin import tasks_timeline
from a2a.choices import TaskState
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from supervisor import reaping
from supervisor.models import Agent, Execution, OutputChunk
from supervisor.runner import run as runs
from supervisor.runner.service import Service
from tests.a2a.conftest import Stage
from tests.a2a.runtimes.conftest import Play, dispatched, sent, states, told, until_ended, until_told
from tests.supervisor.sessions import webs
from tests.supervisor.waiting import until, until_over
from tests.supervisor.workers import running, wait_for, with_command

pytestmark = [
    pytest.mark.capability("A2A-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
Put = Callable[..., Agent]


def test_what_it_prints_is_told_while_it_runs(open_stage: Stage, behind: Put, runner: Service, play: Play) -> None:
    behind(play.script("say('one')", "hold('a')", "say('two')", "hold('b')", "say('three', end='')"))
    task = sent(open_stage)
    run = dispatched(task)
    until_told(task, "one\n")
    assert states(task) == ["working"]
    play.release("a")
    until_told(task, "one\n", "two\n")
    assert task.artifacts.get().body["parts"] == [{"text": "one\ntwo\n"}]
    play.release("b")
    done = until_ended(task)
    assert told(task) == [("one\n", False, False), ("two\n", True, False), ("three", True, True)]
    assert (done.result, task.artifacts.get().body["parts"]) == (
        {"text": "one\ntwo\nthree"},
        [{"text": "one\ntwo\nthree"}],
    )
    until_over(run)


def test_all_that_was_told_before_the_end_is_closed(
    open_stage: Stage, behind: Put, runner: Service, play: Play
) -> None:
    behind(play.script("say('all')", "hold('a')"))
    task = sent(open_stage)
    run = dispatched(task)
    until_told(task, "all\n")
    play.release("a")
    assert until_ended(task).result == {"text": "all\n"}
    assert told(task) == [("all\n", False, False), ("", True, True)]
    shown = tasks_timeline.lines(list(task.events.order_by("seq")), sent_by="planner")
    assert [(line.words, len(line.pieces)) for line in shown[2:4]] == [("result", 1), ("end of result", 0)]
    until_over(run)


def test_a_secret_in_two_pieces_is_in_none(open_stage: Stage, behind: Put, runner: Service, play: Play) -> None:
    """Each half is written by itself, with a pause between them that is longer than what is kept together."""
    behind(
        play.script(
            "say('first'); say('key ' + os.environ['API_TOKEN'][:9], end=''); hold('a')",
            "say(os.environ['API_TOKEN'][9:]); hold('b')",
        ),
        envs={"API_TOKEN": "zebra-crossing-4711"},
    )  # fmt: skip
    task = sent(open_stage)
    run = dispatched(task)
    until_told(task, "first\n")
    play.release("a")
    until(lambda: len(told(task)) == 2, "the rest was told")
    play.release("b")
    done = until_ended(task)
    kept = json.dumps([event.body for event in task.events.all()]) + json.dumps(done.result)
    assert "zebra-cro" not in kept
    assert "ssing-4711" not in kept
    assert done.result["text"].startswith("first\nkey ")
    until_over(run)


def test_of_a_run_that_fails_what_was_begun_is_closed(
    open_stage: Stage, behind: Put, runner: Service, play: Play
) -> None:
    behind(play.script("say('one')", "hold('a')", "say('two')", "sys.exit(3)"))
    task = sent(open_stage)
    run = dispatched(task)
    until_told(task, "one\n")
    play.release("a")
    done = until_ended(task)
    assert (done.state, done.result) == (TaskState.FAILED, None)
    assert told(task) == [("one\n", False, False), ("two\n", True, True)]
    until_over(run)


@pytest.mark.capability("SUP-06")
def test_another_try_begins_anew(
    open_stage: Stage, behind: Put, runner: Service, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "WAITS", (0.0,))
    again = f"if os.path.exists(os.path.join({str(play.place)!r}, 'a')):"
    behind(
        play.script(
            again,
            "    say('second'); hold('b'); say('try', end='')",
            "else:",
            "    say('first try'); hold('a'); sys.exit(75)",
        ),
        max_retries=1,
    )  # fmt: skip
    task = sent(open_stage)
    run = dispatched(task)
    until_told(task, "first try\n")
    play.release("a")
    until_told(task, "first try\n", "second\n")
    assert task.artifacts.get().body["parts"] == [{"text": "second\n"}]
    play.release("b")
    assert until_ended(task).result == {"text": "second\ntry"}
    assert told(task)[1:] == [("second\n", False, False), ("try", True, True)]
    until_over(run)


@pytest.mark.parametrize(
    ("described", "streaming"),
    [
        ({}, False),
        ({"output_pattern": "file"}, True),
        ({"output_pattern": "json-rpc", "input_pattern": "json-rpc"}, True),
    ],
)
def test_what_is_no_answer_or_not_streamed_is_told_at_the_end(
    open_stage: Stage, behind: Put, runner: Service, play: Play, described: dict[str, Any], streaming: bool
) -> None:
    answer = 'print(\'{"jsonrpc": "2.0", "id": 1, "result": "done"}\')'
    behind(play.script("say('one')", "hold('a')", "open('output.txt', 'w').write('done')", answer), **described)
    endpoint_changes.change(actor=SYSTEM, identity=open_stage.writer, streaming=streaming)
    task = sent(open_stage)
    run = dispatched(task)
    until(lambda: OutputChunk.objects.filter(execution=run).exists(), "it wrote")
    until(lambda: relaying.office._thread is None and not relaying.desk._written, "whoever tells has looked")
    assert not told(task)
    play.release("a")
    done = until_ended(task)
    assert (done.state, len(told(task)), told(task)[0][1:]) == (TaskState.COMPLETED, 1, (False, True))
    until_over(run)


def test_two_who_tell_of_the_same_tell_it_once(
    open_stage: Stage, behind: Put, runner: Service, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one has read is told by the other before it comes to write."""
    behind(play.script("say('one')", "hold('a')", "say('two')", "hold('b')"))
    task = sent(open_stage)
    run = dispatched(task)
    until_told(task, "one\n")
    monkeypatch.setattr(relaying.desk, "note", lambda run: None)
    play.release("a")
    until(lambda: OutputChunk.objects.filter(execution=run).count() == 2, "it wrote more")
    prepare, others = writer.prepare, []

    def overtaken(*changes: Any) -> None:
        prepare(*changes)
        if not others:
            others.append(relaying.relay)
            relaying.relay(run)

    monkeypatch.setattr(writer, "prepare", overtaken)
    relaying.relay(run)
    assert [text for text, _, _ in told(task)] == ["one\n", "two\n"]
    play.release("b")
    until_ended(task)
    until_over(run)


@pytest.mark.xdist_group("house")
@pytest.mark.capability("SUP-04")
def test_a_killed_worker_loses_and_repeats_nothing(
    open_stage: Stage, behind: Put, play: Play, tmp_path: Path, broker: str
) -> None:
    """The rest of what is in the table is told by who gives the run up."""
    behind(play.script("say('one')", "hold('a')", "for n in range(1000): say(n); time.sleep(0.01)"), timeout=60)
    with running(tmp_path, broker) as [worker]:
        task = sent(open_stage)
        until_told(task, "one\n")
        play.release("a")
        until(lambda: len(told(task)) > 2, "more was told")
        worker.kill()
        task.refresh_from_db()
        assert task.execution_id is not None
        wait_for(lambda: not with_command("agent-"), 5, "ended with its worker")
        reaping.sweep()
        task.refresh_from_db()
        assert (task.state, task.error_code) == ("failed", "system_error")
        written = "".join(OutputChunk.objects.filter(execution=task.execution_id).values_list("text", flat=True))
        assert "".join(text for text, _, _ in told(task)) == written
        assert [last for _, _, last in told(task)][-1]
        assert [append for _, append, _ in told(task)] == [False] + [True] * (len(told(task)) - 1)


@pytest.mark.xdist_group("house")
@pytest.mark.capability("A2A-05")
def test_a_client_that_streams_hears_it_as_it_comes(
    open_stage: Stage, behind: Put, play: Play, tmp_path: Path, broker: str
) -> None:
    """Over HTTP, from a web process, of a run in a worker process."""
    behind(play.script("say('one')", "hold('a')", "say('two')"))
    token = credentials.issue(actor=SYSTEM, holder=open_stage.planner).token
    with webs.serving(tmp_path, broker, token) as web, running(tmp_path, broker):
        with closing(HTTPConnection("127.0.0.1", web.port, timeout=30)) as link:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Begin."}]}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "A2A-Version": "1.0"}
            link.request("POST", "/agents/writer/", json.dumps(asked), headers)
            heard = events(link.getresponse())
            first = next(one for one in heard if "artifactUpdate" in one)["artifactUpdate"]
            assert (first["artifact"]["parts"], first["lastChunk"]) == ([{"text": "one\n"}], False)
            # It is heard while the program waits for us.
            play.release("a")
            rest = list(heard)
            last = rest[0]["artifactUpdate"]
            assert (last["artifact"]["parts"], last["append"], last["lastChunk"]) == ([{"text": "two\n"}], True, True)
            assert rest[1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        for run in Execution.objects.all():
            until_over(run)


def events(response: Any) -> Iterator[Any]:
    """Of a stream, each as it comes."""
    for line in response:
        if line.startswith(b"data:"):
            yield json.loads(line[5:])["result"]
