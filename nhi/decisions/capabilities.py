"""Capability patterns and how they match: whole segments, with a star only at the end.

The patterns `a.b.c`, `a.b.*`, `a.*` and `*.*` match the capability `a.b.c`, and no others do.
"""

import re

ALL_CAPABILITIES = "*.*"
SEGMENT_PATTERN = re.compile(r"[a-z0-9_-]+")


def is_pattern(text: str) -> bool:
    """Whether the text is a pattern such as `github.commits.list`, `github.commits.*`, `github.*` or `*.*`."""
    if text == ALL_CAPABILITIES:
        return True
    head, _, last = text.rpartition(".")
    if not head or len(text) > 200:
        return False
    is_head_valid = all(SEGMENT_PATTERN.fullmatch(segment) for segment in head.split("."))
    return is_head_valid and (last == "*" or SEGMENT_PATTERN.fullmatch(last) is not None)


def prefix(pattern: str) -> str | None:
    """Return the required prefix of matching capabilities; None for a pattern without a star."""
    if pattern == ALL_CAPABILITIES:
        return ""
    return pattern[:-1] if pattern.endswith(".*") else None


def matches(pattern: str, capability: str) -> bool:
    required_prefix = prefix(pattern)
    if required_prefix is None:
        return pattern == capability
    return capability.startswith(required_prefix) and len(capability) > len(required_prefix)


def is_wide(pattern: str) -> bool:
    """Whether the pattern ends in a star. High risk, because it covers tools that do not exist yet."""
    return pattern.endswith("*")
