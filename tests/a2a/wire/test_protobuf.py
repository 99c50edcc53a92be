"""What protocol buffers cannot say, and that what is generated is what the .proto files say."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a2a.wire import protobuf
from a2a.wire.faults import Fault, Kind
from a2a.wire.v1 import a2a_v1_pb2 as messages
from tests.architecture.source import ROOT

pytestmark = pytest.mark.capability("A2A-03")

PROTOS = ("a2a/wire/v1/a2a_v1", "a2a/wire/v03/a2a_v03")


def test_what_is_generated_is_what_the_proto_files_say(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        "--proto_path=.",
        f"--python_out={tmp_path}",
        f"--pyi_out={tmp_path}",
    ]
    subprocess.run([*command, *(f"{name}.proto" for name in PROTOS)], cwd=ROOT, check=True)
    for name in PROTOS:
        for ending in ("_pb2.py", "_pb2.pyi"):
            assert (tmp_path / f"{name}{ending}").read_text() == (ROOT / f"{name}{ending}").read_text()


def through(value: Any) -> Any:
    message = protobuf.as_message({"metadata": {"it": value}}, messages.Task)
    return protobuf.as_json(messages.Task.FromString(message.SerializeToString()))["metadata"]["it"]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (3, 3), (3.0, 3), (-1.5, -1.5), (2**53, 2**53), (2**53 + 1, str(2**53 + 1)), (10**400, str(10**400)),
        (1e300, 1e300), (True, True), (None, None), ([1, {"a": []}], [1, {"a": []}]),
    ],
)  # fmt: skip
def test_numbers_of_a_struct(value: Any, read: Any) -> None:
    found = through(value)
    assert found == read
    assert type(found) is type(read)


def test_a_number_that_json_has_not_is_refused() -> None:
    task = messages.Task()
    task.metadata["it"] = float("nan")
    with pytest.raises(Fault) as refused:
        protobuf.as_json(task)
    assert refused.value.kind is Kind.INVALID_PARAMS


@pytest.mark.parametrize("container", [lambda inside: {"a": inside}, lambda inside: [inside]])
def test_what_is_nested_too_deep_is_not_told_in_part(container: Any) -> None:
    value: Any = 1
    told = refused = 0
    for _ in range(64):
        value = container(value)
        try:
            assert through(value) == value
            told += 1
            assert not refused, "deeper ones cannot be told either"
        except Fault as fault:
            assert fault.kind is Kind.UNSUPPORTED
            refused += 1
    assert told > 25
    assert refused
