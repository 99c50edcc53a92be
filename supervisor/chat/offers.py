"""Tools as they are offered to a model: by names that the API takes, each of which leads back to the tool's own."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
#: What the API takes as a name, how many tools, and how much is said of one.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
MOST, LONGEST_DESCRIPTION = 128, 1024
MARK_LENGTH = 8


class Offer:
    """The tools of one moment. The same tool has the same name in each, so that a conversation can go on."""

    def __init__(self, listed: Sequence[Mapping[str, Any]]) -> None:
        self.left_out = max(len(listed) - MOST, 0)
        listed = listed[:MOST]
        self._names = {name: name for tool in listed if NAME.fullmatch(name := str(tool["name"]))}
        spelled = [self._spelled(str(tool["name"])) for tool in listed]
        self.tools = [_function(name, tool) for name, tool in zip(spelled, listed, strict=True)]

    def tool(self, name: str) -> str:
        """The tool that the model means; a name that was never offered means itself."""
        return self._names.get(name, name)

    def _spelled(self, name: str) -> str:
        if self._names.get(name) == name:
            return name
        mark = hashlib.sha256(name.encode()).hexdigest()
        spelled = f"{NOT_IN_NAMES.sub('_', name)[: 63 - MARK_LENGTH]}_{mark[:MARK_LENGTH]}"
        # A tool whose own name is just this one keeps it, and the other is told apart by more of its mark.
        if spelled in self._names:
            spelled = f"tool_{mark[:58]}"
        self._names[spelled] = name
        return spelled


def _function(name: str, tool: Mapping[str, Any]) -> Json:
    said: Json = {"name": name, "parameters": tool.get("inputSchema") or {"type": "object", "properties": {}}}
    if description := tool.get("description") or tool.get("title"):
        said["description"] = str(description)[:LONGEST_DESCRIPTION]
    return {"type": "function", "function": said}
