"""What one identity's flood costs another, as a ratio in one run: `python -m benchmarks.fairness [--calls N] ...`

One identity calls a tool again and again, alone and then while another identity sends thousands of calls at once.
Printed is the 99th percentile of its calls in both cases, and what became of the flood.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.calls import database
from benchmarks.calls.house import Granted, house
from benchmarks.calls.processes import ended, plain
from benchmarks.gateway import direct
from common.process import parent_death
from tests.services.house import ROOT

ALONE_SECONDS = 4.0


@dataclass(frozen=True)
class Result:
    alone_p50_ms: float
    alone_p99_ms: float
    beside_p50_ms: float
    beside_p99_ms: float
    #: The second 99th percentile by the first.
    ratio: float
    calls_alone: int
    calls_beside: int
    statuses: dict[str, int]
    flood_seconds: float
    flood_statuses: dict[str, int]

    @property
    def text(self) -> str:
        return "\n".join((
            f"alone:              p50 {self.alone_p50_ms} ms, p99 {self.alone_p99_ms} ms, {self.calls_alone} calls",
            f"beside the flood:   p50 {self.beside_p50_ms} ms, p99 {self.beside_p99_ms} ms, {self.calls_beside} calls",
            f"ratio of the p99:   {self.ratio}",
            f"the flood:          {self.flood_statuses} in {self.flood_seconds} s",
        ))  # fmt: skip


def main() -> None:
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("--calls", type=int, default=4000, help="sent at once by the one identity")
    known.add_argument("--rounds", type=int, default=1, help="how often they are sent, each after the last reply")
    known.add_argument("--workers", type=int, default=1, help="web processes")
    known.add_argument("--database", choices=database.KINDS, default="postgresql")
    known.add_argument("--edge", choices=["rest", "mcp"], default="rest")
    known.add_argument("--json", action="store_true")
    options = known.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatehouse-bench-")))
        databases = stack.enter_context(database.server(options.database, place))
        upstream = stack.enter_context(direct(place))
        gate = stack.enter_context(house(databases.new("gateway"), upstream, options.workers))
        url = f"http://127.0.0.1:{upstream.ports[0]}{upstream.request.path}"
        one, other = gate.grant("flooded", url), gate.grant("measured", url)
        result = compare(gate.launched.port, one, other, options, place)
    print(json.dumps(asdict(result), indent=1) if options.json else result.text, flush=True)


def compare(port: int, one: Granted, other: Granted, options: Any, place: Path) -> Result:
    measured = {"port": port, "request": other.request(options.edge).wire}
    flood = {"port": port, "request": one.request(options.edge).wire}
    with running({**measured, "until": str(place / "warm")}) as process:
        time.sleep(1)
        result_of(process, place / "warm")
    with running({**measured, "until": str(place / "alone")}) as process:
        time.sleep(ALONE_SECONDS)
        alone = result_of(process, place / "alone")
    with running({**flood, "calls": options.calls, "rounds": options.rounds}) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        assert sender.stdout.readline() == "ready\n", "The flood could not connect."
        with running({**measured, "until": str(place / "beside")}) as process:
            sender.stdin.write("go\n")
            sender.stdin.flush()
            flooded = json.loads(sender.stdout.readline())
            beside = result_of(process, place / "beside")
    before, after = percentile(alone["took_ms"], 99), percentile(beside["took_ms"], 99)
    return Result(
        percentile(alone["took_ms"], 50), before, percentile(beside["took_ms"], 50), after, round(after / before, 2),
        len(alone["took_ms"]), len(beside["took_ms"]), beside["statuses"], flooded["seconds"], flooded["statuses"],
    )  # fmt: skip


def percentile(numbers: list[float], share: int) -> float:
    ordered = sorted(numbers)
    return ordered[max(0, -(-share * len(ordered) // 100) - 1)]


@contextmanager
def running(job: dict[str, Any]) -> Iterator["subprocess.Popen[str]"]:
    command = parent_death.build_command([sys.executable, "-m", "benchmarks.calls.flood"])
    process = subprocess.Popen(command, cwd=ROOT, env=plain(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with ended(process):
        assert process.stdin is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        yield process


def result_of(process: "subprocess.Popen[str]", until: Path) -> dict[str, Any]:
    until.touch()
    assert process.stdout is not None
    return dict(json.loads(process.stdout.readline()))


if __name__ == "__main__":
    main()
