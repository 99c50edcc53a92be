#!/usr/bin/env python3
"""An agent that asks its caller for what is missing, and goes on once it is answered: it says what to pack.

A run that asks prints its question and ends with 79. The run after it is given the answer as its input, and finds all
that was said in the file that GATEHOUSE_CONVERSATION names.

echo "Oslo" | python3 ask_back.py
"""

import json
import os
import sys
from pathlib import Path

ASKS = 79


def said_by_caller() -> list[str]:
    """The texts of its messages, the first first."""
    given = sys.stdin.read().strip()
    if "GATEHOUSE_CONVERSATION" not in os.environ:
        return [given]
    try:
        messages = json.loads(Path(os.environ["GATEHOUSE_CONVERSATION"]).read_text(encoding="utf-8"))
        return [text_of(message).strip() for message in messages if message["role"] == "ROLE_USER"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        sys.exit(f"GATEHOUSE_CONVERSATION names no conversation that can be read: {error}")


def text_of(message: dict[str, list[dict[str, object]]]) -> str:
    """What was sent as plain data has its text under the name `input`."""
    part = message["parts"][0]
    data = part.get("data")
    return str(data.get("input", "") if isinstance(data, dict) else part.get("text", ""))


def ask(question: str) -> None:
    print(question)
    sys.exit(ASKS)


def main() -> None:
    place, *answers = said_by_caller() or [""]
    if not place:
        sys.exit("There is no place to travel to.")
    if not answers:
        ask(f"For how many days do you go to {place}?")
    days = answers[-1].split()[0] if answers[-1] else ""
    if not days.isdecimal() or int(days) < 1:
        ask("I need a number of days, such as 3.")
    print(f"For {place}: {int(days) + 1} shirts, {int(days) + 1} pairs of socks, one coat.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
    except UnicodeDecodeError:
        sys.exit("What came in is no text in UTF-8.")
