"""Capability patterns: whole segments, a star only at the end.

`a.b.c` is matched by exactly `a.b.c`, `a.b.*`, `a.*` and `*.*`.
"""

import re

ALL_CAPABILITIES = "*.*"
SEGMENT_PATTERN = re.compile(r"[a-z0-9_-]+")


def is_pattern(text: str) -> bool:
    """`github.read`, `github.commits.list`, `github.commits.*`, `github.*` or `*.*`."""
    if text == ALL_CAPABILITIES:
        return True
    head, _, last = text.rpartition(".")
    if not head or len(text) > 200:
        return False
    named = all(SEGMENT_PATTERN.fullmatch(segment) for segment in head.split("."))
    return named and (last == "*" or SEGMENT_PATTERN.fullmatch(last) is not None)


def prefix(pattern: str) -> str | None:
    """What a capability must begin with; None for a pattern that names one capability."""
    if pattern == ALL_CAPABILITIES:
        return ""
    return pattern[:-1] if pattern.endswith(".*") else None


def matches(pattern: str, capability: str) -> bool:
    begins = prefix(pattern)
    if begins is None:
        return pattern == capability
    return capability.startswith(begins) and len(capability) > len(begins)


def is_wide(pattern: str) -> bool:
    """High risk: it takes in tools that do not exist yet."""
    return pattern.endswith("*")
