"""The words that an agent is started with: a list, never a shell's line."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nhi.validation import Problems
from supervisor.choices import InputPattern

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z][A-Za-z0-9_]{0,63})\s*\}\}")
ODD_PLACEHOLDER = "A parameter is written {{ name }}: a letter, then letters, digits or underscores, 64 at most."
#: Filled by the run itself with the paths of its files.
FILES = ("input_file", "output_file")
MOST_WORDS, LONGEST_WORD = 200, 8 * 1024
#: The kernel takes no longer word than 128 KiB.
LONGEST_INPUT = 120 * 1024


def words(given: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Arguments as a list. Of an object, each key is followed by its value; true or nothing leaves the key alone."""
    if not isinstance(given, Mapping):
        return list(given)
    return [word for key, value in given.items() for word in _pair(key, value)]


def check(problems: Problems, words: Sequence[str]) -> None:
    problems.unless(len(words) <= MOST_WORDS, "cli_args", f"Use at most {MOST_WORDS} arguments.")
    for number, word in enumerate(words):
        problems.unless(
            is_line(word), f"cli_args.{number}", f"An argument is one line of at most {LONGEST_WORD} characters."
        )
        # A closing pair alone is common: JSON ends so.
        opened = "{{" in PLACEHOLDER.sub("x", word)
        problems.unless(not opened, f"cli_args.{number}", ODD_PLACEHOLDER)


def check_parameters(problems: Problems, words: Sequence[str], parameters: Mapping[str, Any]) -> None:
    for name in wanted(words):
        value = parameters.get(name)
        field = f"parameters.{name}"
        if value is None:
            problems.add(field, "The agent's command line needs this parameter.")
        elif isinstance(value, dict | list):
            problems.add(field, "The agent's command line needs a text, a number or true or false here.")
        elif not is_line(text(value)):
            problems.add(field, f"Use one line of at most {LONGEST_WORD} characters, without the NUL character.")
        elif any(_becomes_option(word, parameters) for word in words if name in PLACEHOLDER.findall(word)):
            problems.add(field, "This becomes an argument of its own and must not begin with -.")


def check_input(problems: Problems, pattern: str, given: str) -> None:
    if pattern == InputPattern.ARGS:
        fits = len(given.encode(errors="surrogatepass")) <= LONGEST_INPUT
        problems.unless(fits, "input", f"An argument holds at most {LONGEST_INPUT} bytes.")
        problems.unless("\0" not in given, "input", "An argument cannot hold the NUL character.")


def wanted(words: Sequence[str]) -> list[str]:
    """The parameters that the words name."""
    names = dict.fromkeys(name for word in words for name in PLACEHOLDER.findall(word))
    return [name for name in names if name not in FILES]


def filled(words: Sequence[str], values: Mapping[str, Any]) -> list[str]:
    return [PLACEHOLDER.sub(lambda found: text(values[found[1]]), word) for word in words]


def with_input(words: Sequence[str], given: str) -> list[str]:
    """The input as the last word. One that looks like an option comes behind `--`, which ends the options."""
    return [*words, "--", given] if given.startswith("-") and "--" not in words else [*words, given]


def names_file(words: Sequence[str], name: str) -> bool:
    return any(name in PLACEHOLDER.findall(word) for word in words)


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _pair(key: str, value: Any) -> list[str]:
    if value is True or value is None or value == "":
        return [key]
    return [] if value is False else [key, text(value)]


def is_line(word: str) -> bool:
    return len(word) <= LONGEST_WORD and "\0" not in word and "\n" not in word


def _becomes_option(word: str, values: Mapping[str, Any]) -> bool:
    """Whether the agent's admin wrote no option there and the parameters make one of it."""
    paths = dict.fromkeys(FILES, "/")
    filled = PLACEHOLDER.sub(lambda found: text({**values, **paths}.get(found[1], "")), word)
    return filled.startswith("-") and not word.startswith("-")
