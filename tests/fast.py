"""`make test-fast`: the tests that import what has changed, directly or through other modules of tests, on SQLite.

    python -m tests.fast [commit] [pytest's arguments]

Changes are those since the commit (HEAD unless named) and new files. This finds most failures in a minute or two;
`make test` finds the rest.
"""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    commit = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "HEAD"
    files = affected_tests(changed_files(commit))
    if not files:
        print(f"No test imports what has changed since {commit}.")
        return 0
    print(f"{len(files)} test files")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", *files, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def changed_files(commit: str) -> set[str]:
    commands = (["git", "diff", "--name-only", commit], ["git", "ls-files", "--others", "--exclude-standard"])
    outputs = (subprocess.run(each, cwd=ROOT, capture_output=True, text=True, check=True).stdout for each in commands)
    return {name for output in outputs for name in output.splitlines() if name.endswith(".py")}


def affected_tests(changed: set[str]) -> list[str]:
    """Tests that have changed or import a changed module, followed through modules of tests, not of the product."""
    importers = defaultdict(set)
    for path in (ROOT / "tests").rglob("*.py"):
        for module in imported_modules(path):
            importers[module].add(path)
    affected: set[Path] = set()
    waiting = [ROOT / name for name in changed if (ROOT / name).exists()]
    affected.update(path for path in waiting if path.is_relative_to(ROOT / "tests"))
    while waiting:
        path = waiting.pop()
        found = importers[module_name(path)] - affected
        if path.name == "conftest.py":
            found |= {*path.parent.rglob("test_*.py")} - affected
        affected |= found
        waiting += found
    return sorted(str(path.relative_to(ROOT)) for path in affected if path.name.startswith("test_"))


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
