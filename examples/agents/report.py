#!/usr/bin/env python3
"""An agent that reads a file and writes a file: a report on the text whose path is the last argument.

    python3 report.py --output report.txt notes.txt

The report is written beside the agent's other files, in the directory it is started in.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path


def report(text: str) -> str:
    words = re.findall(r"[^\W\d_]+", text.lower())
    lines = text.splitlines()
    longest = max(lines, key=len, default="")
    return "\n".join(
        [
            "# Report",
            f"Lines: {len(lines)}",
            f"Words: {len(words)}, {len(set(words))} of them different",
            f"Longest line: {longest.strip()}",
            "Most frequent: " + ", ".join(f"{word} ({count})" for word, count in Counter(words).most_common(5)),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Reports on a text.")
    parser.add_argument("--output", default="output.txt", help="a name in the current directory")
    parser.add_argument("input", type=Path, help="the text to report on")
    given = parser.parse_args()
    if given.output in {"", ".", ".."} or Path(given.output).name != given.output:
        parser.error("--output takes a name without a directory.")
    try:
        text = given.input.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        parser.exit(1, f"{given.input} cannot be read: {error.strerror}\n")
    try:
        Path(given.output).write_text(report(text), encoding="utf-8")
    except OSError as error:
        parser.exit(1, f"{given.output} cannot be written: {error.strerror}\n")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
