"""Every way in and every way out, by programs that really run."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.errors import InvalidInput
from common.process import executable_allowlist
from supervisor import agents
from supervisor.models import Agent, Execution
from supervisor.runner.service import Service
from tests.nhi import cast
from tests.supervisor.waiting import until_over

pytestmark = [
    pytest.mark.capability("SUP-02", "SUP-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("runner"),
]
#: Answers with all that it finds itself in.
WITNESS = """#!/usr/bin/env python3
import json, os, stat, sys
place = os.stat(".")
found = {
    "argv": sys.argv[1:], "environ": dict(os.environ), "input": sys.stdin.read(), "cwd": os.getcwd(),
    "mode": stat.S_IMODE(place.st_mode), "mine": place.st_uid == os.getuid(), "files": sorted(os.listdir(".")),
    "uid": os.getuid(), "leader": os.getsid(0) == os.getpid(), "fds": sorted(os.listdir("/proc/self/fd"))[:3],
}
for name in found["files"]:
    found[name] = open(name).read()
print(json.dumps(found))
"""
OURS = {"GATEHOUSE_RUN_ID", "GATEHOUSE_TOKEN", "GATEHOUSE_URL", "HOME", "LANG", "PATH"}
#: What would be read by a shell, an option parser, or whoever pastes it somewhere.
HOSTILE = ["$(touch p)", "`id`", ";id", "--config=/etc/passwd", "-c import os", "a\nb", "%s{{x}}${HOME}", "'\"\\"]


def witnessed(execution: Execution) -> dict[str, Any]:
    done = until_over(execution)
    assert done.status == "success", done.error_message
    return dict(json.loads(done.result.output))


def test_a_run_has_a_directory_and_an_environment_of_its_own(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], settings: Any
) -> None:
    agent = make_agent(WITNESS, envs={"COLOUR": "${HOME}"}, allowed_env_vars=["SHAPE"])
    run = submit(agent, "hello", env_vars={"SHAPE": "round"})
    found = witnessed(run)
    assert found["input"] == "hello"
    assert found["environ"].keys() - OURS == {"COLOUR", "SHAPE"}
    assert found["environ"]["COLOUR"] == "${HOME}"
    assert found["environ"]["GATEHOUSE_RUN_ID"] == str(run.pk)
    assert found["environ"]["HOME"] == found["cwd"]
    assert (found["mode"], found["mine"], found["leader"], found["files"]) == (0o700, True, True, [])
    assert found["uid"] == (settings.RUN_AS.uid if settings.RUN_AS else found["uid"])
    assert not Path(found["cwd"]).exists()


@pytest.mark.parametrize("pattern", ["stdin", "file", "args", "json-rpc"])
def test_input_arrives_as_it_was_sent(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], pattern: str
) -> None:
    agent = make_agent(WITNESS, input_pattern=pattern, input_file_template="{{execution_id}}.in")
    runs = [submit(agent, said) for said in HOSTILE]
    for said, run in zip(HOSTILE, runs, strict=True):
        found = witnessed(run)
        name = f"{run.pk}.in"
        match pattern:
            case "stdin":
                assert (found["argv"], found["input"]) == ([], said)
            case "file":
                assert (found["argv"], found[name]) == ([f"{found['cwd']}/{name}"], said)
            case "args":
                assert found["argv"] == (["--", said] if said.startswith("-") else [said])
            case "json-rpc":
                request = json.loads(found["input"])
                assert request["method"] == "execute"
                assert request["params"] == {"input": said, "parameters": {}}
        assert "p" not in found["files"]


def test_parameters_fill_the_words_that_name_them_and_never_become_options(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent(WITNESS, cli_args=["--level={{level}}", "{{topic}}", "{{output_file}}"])
    found = witnessed(submit(agent, "x", parameters={"level": 3, "topic": "a b", "more": [1]}))
    assert found["argv"] == ["--level=3", "a b", f"{found['cwd']}/output.txt"]
    assert json.loads(found["parameters.json"]) == {"level": 3, "topic": "a b", "more": [1]}
    odd = ({}, {"topic": "--x"}, {"topic": "a\nb"}, {"topic": [3]}, {"topic": "\0"})
    for parameters in odd:
        with pytest.raises(InvalidInput):
            submit(agent, "x", parameters={"level": 3, **parameters})
    pieces = make_agent(WITNESS, name="pieces", cli_args=["{{a}}{{b}}"])
    with pytest.raises(InvalidInput, match="must not begin with -"):
        submit(pieces, "x", parameters={"a": "", "b": "--config=/etc/passwd"})


def test_what_waited_is_looked_at_again_when_its_agent_has_changed(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], runner: Service
) -> None:
    runner.stop()
    agent = make_agent(WITNESS, allowed_env_vars=["SHAPE"])
    runs = submit(agent, "x", parameters={"p": "--x"}), submit(agent, "x", env_vars={"SHAPE": "round"})
    Agent.objects.filter(pk=agent.pk).update(cli_args=["{{p}}"], allowed_env_vars=[])
    again = Service(2)
    again.start()
    for run in runs:
        done = until_over(run)
        assert (done.status, done.error_category) == ("failure", "Permanent")
        assert done.error_message.startswith("Its agent was changed meanwhile.")
    again.stop()


RESPONDS = """#!/usr/bin/env python3
import json, sys
request = json.loads(sys.stdin.readline())
print("Loading ...")
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], %s}))
"""


@pytest.mark.parametrize(
    ("said", "status", "output"),
    [
        ('"result": "done"', "success", "done"),
        ('"result": {"n": 1}', "success", '{"n": 1}'),
        ('"result": None', "success", "null"),
        ('"error": {"code": 1, "message": "no such thing"}', "failure", ""),
        ('"neither": 1', "failure", ""),
    ],
)
def test_the_answer_of_a_json_rpc_agent_is_its_result(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], said: str, status: str, output: str
) -> None:
    agent = make_agent(RESPONDS % said, input_pattern="json-rpc", output_pattern="json-rpc")
    run = until_over(submit(agent, "x"))
    assert run.status == status
    if status == "success":
        assert run.result.output == output
    else:
        assert run.error_category == "AgentError"
        assert run.error_message.startswith("It ")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("true", "It wrote nothing to its standard output."),
        ("echo '{\"result\": 1'", "It wrote no JSON-RPC response: its last line is not JSON."),
        ("echo '{\"answer\": 1}'", "It wrote no JSON-RPC response with a result."),
    ],
)
def test_a_missing_json_rpc_answer_says_what_was_there_and_what_is_expected(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], script: str, why: str
) -> None:
    agent = make_agent(WRITES % script, input_pattern="json-rpc", output_pattern="json-rpc")
    said = until_over(submit(agent, "x")).error_message
    assert said.startswith(f"{why} Its answer is read from one line like {{")


def test_an_example_runs_as_it_is_now(
    submit: Callable[..., Execution], open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever adds or edits a script there need start nothing again."""
    scripts = open_directory / "examples" / "agents"
    scripts.mkdir(parents=True)
    monkeypatch.setattr(executable_allowlist, "EXAMPLES_DIRECTORY", scripts.parent)
    script = scripts / "wordcount.py"
    for said in ("first", "second"):
        script.write_text(f"#!/usr/bin/env python3\nprint({said!r})\n")
        script.chmod(0o755)
        # An edit can be older than the copy, as one that was fetched from elsewhere.
        os.utime(script, (1, 1))
        agent = Agent.objects.first() or agents.create(
            actor=cast.admin(), identity=cast.agent("counts"),
            given={"name": "counts", "executable_path": str(script)},
        )  # fmt: skip
        run = until_over(submit(agent))
        assert (run.error_message, run.result.output) == ("", f"{said}\n")


WRITES = "#!/bin/sh\n%s\n"


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("printf said > answer.txt", "success"),
        ("true", "failure"),
        ("ln -s /etc/passwd answer.txt", "failure"),
        ("mkfifo answer.txt", "failure"),
        ("mkdir answer.txt", "failure"),
        ("printf said > a; ln a answer.txt", "failure"),
    ],
)
def test_an_output_file_is_a_plain_file_of_the_run(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], script: str, status: str
) -> None:
    agent = make_agent(WRITES % script, output_pattern="file", output_file_template="answer.txt")
    run = until_over(submit(agent, "x"))
    assert run.status == status
    assert run.result.output == ("said" if status == "success" else "")


def test_of_a_flood_the_beginning_is_kept_and_all_of_it_counted(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    flood = "#!/bin/sh\nhead -c 50000000 /dev/zero | tr '\\0' 'x'\necho end >&2\n"
    run = until_over(submit(make_agent(flood)))
    assert (run.status, run.result.output_bytes, run.result.output_truncated) == ("success", 50_000_000, True)
    assert run.result.output == "x" * 1024 * 1024
    assert (run.result.error, run.result.error_truncated) == ("end\n", False)


def test_what_is_secret_is_taken_out_before_anything_is_stored(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    secret, token = "correct-horse-battery", "ghp_" + "a1B2" * 9
    tells = '#!/bin/sh\ncat; echo "$API_PASSWORD"; echo "$GATEHOUSE_TOKEN" >&2; printf %s "$API_PASSWORD" | rev | rev\n'
    agent = make_agent(tells, envs={"API_PASSWORD": secret})
    run = until_over(submit(agent, f"use {token}\n"))
    stored = json.dumps([list(Execution.objects.values()), list(run.chunks.values()), vars(run.result)], default=str)
    assert run.result.output.count("[REDACTED") == 3
    assert run.result.error.strip().startswith("[REDACTED")
    assert not [one for one in (secret, token, "nhi_tok_") if one in stored]
    assert secret not in agent.sealed_envs


def test_who_alternates_between_the_streams_fills_no_table(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    flips = """#!/usr/bin/env python3
import os
for n in range(3000):
    os.write(1 + n % 2, b"x\\n")
"""
    run = until_over(submit(make_agent(flips)))
    assert (run.result.output_bytes, run.result.error_bytes) == (3000, 3000)
    assert run.result.output == run.result.error == "x\n" * 1500
    assert run.chunks.count() < 300
