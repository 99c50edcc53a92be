#!/usr/bin/env python3
"""An agent that reads from standard input and writes to standard output: how long a text is, and how it begins.

echo "Plants need water. So do people." | python3 summarise.py
"""

import re
import sys


def first_sentence(text: str) -> str:
    """Up to the first full stop, question or exclamation mark that ends a word."""
    flat = " ".join(text.split())
    return re.split(r"(?<=[.!?])\s", flat, maxsplit=1)[0]


def main() -> None:
    text = sys.stdin.read()
    if not text.strip():
        # What goes to standard error and a code other than 0 is how a run says that it failed.
        sys.exit("There is no text to summarise.")
    print(f"Lines: {len(text.splitlines())}")
    print(f"Words: {len(text.split())}")
    print(f"It begins: {first_sentence(text)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
    except UnicodeDecodeError:
        sys.exit("What came in is no text in UTF-8.")
