"""`make test`: everything on PostgreSQL, then what is marked `both_databases` again on SQLite.

    python -m tests.run [pytest's arguments]

The last line is `N passed, N failed` over both runs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.services import postgresql

OK, SOME_FAILED, NO_TESTS = 0, 1, 5
#: What a run has of its own. Compiled files are kept whatever the caller says: a hundred processes of it read the same.
OWN = {"DATABASE_URL", "GATEHOUSE_DATA", "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Outcome:
    database: str
    code: int
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def good(self) -> bool:
        return self.code in {OK, NO_TESTS}

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        stopped = "" if self.code in {OK, SOME_FAILED, NO_TESTS} else f"; pytest broke off with exit code {self.code}"
        return f"On {self.database}: {self.passed} passed, {self.failed} failed{skipped}{stopped}."


def main(arguments: list[str]) -> int:
    options, rest = parser().parse_known_args(arguments)
    with postgresql.server() as server:
        first = run("PostgreSQL", options.m, rest, DATABASE_URL=server.url())
    only = f"({options.m}) and both_databases" if options.m else "both_databases"
    second = run("SQLite", only, rest)
    print(f"\n{first}\n{second}")
    print(f"{first.passed + second.passed} passed, {first.failed + second.failed} failed", flush=True)
    if first.code == second.code == NO_TESTS:
        return NO_TESTS
    return OK if first.good and second.good else 1


def parser() -> argparse.ArgumentParser:
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known.add_argument("-m", default="", metavar="MARKS")
    return known


def run(database: str, marks: str, arguments: list[str], **environ: str) -> Outcome:
    kept = {name: value for name, value in os.environ.items() if name not in OWN}
    with tempfile.TemporaryDirectory(prefix="gatehouse-report-") as place:
        report = Path(place) / "report.xml"
        # A house is one machine's worth of processes: its tests share a worker, so that only one stands at a time.
        workers = ["-n", "2", "--dist", "loadgroup"]
        # Python's own tracebacks: pytest parses sources for its prettier ones, and among the greenlets of a browser
        # test Python 3.11 answers that with a SystemError that takes the whole worker along.
        command = [sys.executable, "-m", "pytest", *workers, "--tb=native", f"--junit-xml={report}"]
        marked = ["-m", marks] if marks else []
        code = subprocess.run([*command, *arguments, *marked], env={**kept, **environ}, check=False).returncode
        return read(database, code, report)


def read(database: str, code: int, report: Path) -> Outcome:
    if not report.exists():
        return Outcome(database, code, failed=1)
    suites = ElementTree.parse(report).getroot().findall("testsuite")
    total, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    # A run that broke off is a failure, though no test says so.
    failed = failures + errors or int(code not in {OK, NO_TESTS})
    return Outcome(database, code, passed=max(total - failed - skipped, 0), failed=failed, skipped=skipped)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
