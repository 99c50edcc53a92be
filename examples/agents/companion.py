#!/usr/bin/env python3
"""An agent to talk with: it reads a line, answers with a line, and remembers what was said until one side says bye.

python3 companion.py
"""

import sys

HELP = "Tell me anything. echo TEXT repeats, count says how much you told me, recall N brings it back, bye ends this."


def answer(said: str, remembered: list[str]) -> str:
    word, _, rest = said.partition(" ")
    match word.lower():
        case "help":
            return HELP
        case "echo":
            return rest
        case "count":
            return f"You told me {len(remembered)} things."
        case "recall":
            known = rest.isdecimal() and 0 < int(rest) <= len(remembered)
            return remembered[int(rest) - 1] if known else f"I know the numbers 1 to {len(remembered)}."
    remembered.append(said)
    return f"I keep this as number {len(remembered)}."


def main() -> None:
    remembered: list[str] = []
    for line in sys.stdin:
        said = line.strip()
        if said.lower() == "bye":
            print("Goodbye.", flush=True)
            return
        # Whoever waits for the answer gets it now: a pipe would keep it until there is more.
        print(answer(said, remembered), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
    except UnicodeDecodeError:
        sys.exit("What came in is no text in UTF-8.")
