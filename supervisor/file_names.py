"""Names of the files that a run's input and output go through: templates, rendered once for each run."""

import re
import unicodedata
from datetime import datetime

VARIABLES = ("execution_id", "agent_id", "timestamp")
PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
LONGEST = 200
INPUT, OUTPUT, PARAMETERS, CONVERSATION = "input.txt", "output.txt", "parameters.json", "conversation.json"


def problem(template: str) -> str:
    """Why this names no file in the run's directory, as a sentence; empty when it does."""
    unknown = [name for name in PLACEHOLDER.findall(template) if name not in VARIABLES]
    if unknown:
        known = ", ".join(f"{{{{{name}}}}}" for name in VARIABLES)
        return f"{{{{{unknown[0][:40]}}}}} is not known; there are {known}."
    plain = PLACEHOLDER.sub("x", template)
    if "{{" in plain or "}}" in plain:
        return "A variable is written {{name}}."
    if any(unicodedata.category(mark).startswith("C") for mark in plain):
        return "Leave out control characters."
    if "/" in plain or "\\" in plain or ".." in plain or plain == ".":
        return "Name a file in the run's own directory: no / and no .. in it."
    return "" if len(template) <= LONGEST else f"Use at most {LONGEST} characters."


def render(template: str, *, execution_id: str, agent_id: str, at: datetime) -> str:
    values = {"execution_id": execution_id, "agent_id": agent_id, "timestamp": at.strftime("%Y%m%dT%H%M%S")}
    return PLACEHOLDER.sub(lambda found: values[found[1]], template)
