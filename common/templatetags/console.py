"""Template tags of the console: badges, icons, times, escaped outside text, tabs, API commands."""

import json
import re
import unicodedata
from datetime import datetime
from typing import Any

from django import template
from django.conf import settings
from django.http import QueryDict
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import badges, times

register = template.Library()

LONGEST_OUTSIDE = 2000
#: Categories of marks that show nothing, or turn text around.
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
#: Letters and signs that are drawn as nothing.
BLANK_CHARACTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")


@register.simple_tag
def badge(value: Any, vocabulary_name: str = "") -> SafeString:
    """`{% badge identity.badge %}`, `{% badge 'allow' 'nhi.Verdict' %}`: icon and text, never the hue alone."""
    if value is None or value == "":
        return SafeString("")
    resolved_badge = _badge(value, vocabulary_name)
    return format_html(
        '<span class="gh-badge gh-badge--{}">{}{}</span>',
        resolved_badge.tone.value,
        icon(resolved_badge.symbol),
        resolved_badge.label,
    )


def _badge(value: Any, vocabulary_name: str) -> badges.Badge:
    if isinstance(value, badges.Badge):
        return value
    return badges.find(vocabulary_name, value) if vocabulary_name else badges.of(value)


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html('<span class="material-symbols-outlined gh-icon" aria-hidden="true">{}</span>', name)


@register.simple_tag
def when(moment: datetime | None, form: str = "relative", missing: str = "never") -> SafeString:
    """`relative` with the absolute time on hover, `both` (for ends), or `log` (absolute with milliseconds first)."""
    if moment is None:
        return format_html('<span class="gh-subtle">{}</span>', missing)
    now = timezone.now()
    relative_text, exact_text = times.relative(moment, now), times.exact(moment)
    if form == "log":
        visible_text, suffix, title = exact_text, "", relative_text
    elif form == "both":
        visible_text, suffix, title = (
            f"{relative_text}, {times.absolute(moment, now)}",
            f", {times.absolute(moment, now)}",
            exact_text,
        )
    else:
        visible_text, suffix, title = relative_text, "", exact_text
    data_attribute = SafeString("") if form == "log" else format_html(' data-when="{}"', suffix)
    return format_html(
        '<time datetime="{}" title="{}"{}>{}</time>', times.stamp(moment), title, data_attribute, visible_text
    )


@register.simple_tag
def outside(text: Any, most: int = LONGEST_OUTSIDE) -> SafeString:
    """Text from elsewhere: escaped, capped, with marks that hide or turn text around made visible."""
    full_text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, indent=2)
    truncation_note = (
        format_html(' <span class="gh-subtle">(cut, {} more)</span>', len(full_text) - most)
        if len(full_text) > most
        else ""
    )
    return format_html('<span class="gh-outside">{}{}</span>', _mark_invisible(full_text[:most]), truncation_note)


def spell_invisible(text: str) -> str:
    """The same for titles and labels, which hold no markup."""
    return "".join(f"[U+{ord(character):04X}]" if _is_invisible(character) else character for character in text)


def _mark_invisible(text: str) -> SafeString:
    """Each kind of character is looked at once: a text may have millions."""
    marks = {
        character: format_html('<span class="gh-mark">U+{}</span>', f"{ord(character):04X}")
        for character in set(text)
        if _is_invisible(character)
    }
    if not marks:
        return escape(text)
    parts = re.split("([" + re.escape("".join(marks)) + "])", text)
    return SafeString("".join(marks[part] if part in marks else escape(part) for part in parts))


def _is_invisible(character: str) -> bool:
    return character not in "\n\t" and (
        character in BLANK_CHARACTERS or unicodedata.category(character) in INVISIBLE_CATEGORIES
    )


@register.simple_tag
def hub_tabs(tabs: Any, label: str = "Parts of this page") -> SafeString:
    items = format_html_join(
        "",
        '<li><a href="{}"{}>{}{}</a></li>',
        (
            (
                tab.url,
                SafeString(' aria-current="page"') if tab.current else "",
                tab.label,
                format_html(' <span class="gh-count">{}</span>', tab.count) if tab.count is not None else "",
            )
            for tab in tabs
        ),
    )
    return format_html('<nav class="gh-tabs" aria-label="{}"><ul>{}</ul></nav>', label, items)


@register.inclusion_tag("console/by_api.html")
def by_api(method: str, path: str, body: Any = None) -> dict[str, Any]:
    """The same verb as `curl`, folded away."""
    return {"command": as_curl(method, path, body)}


@register.simple_tag
def as_curl(method: str, path: str, body: Any = None) -> str:
    """With a placeholder for the token."""
    lines = [f"curl -X {method} {settings.PUBLIC_URL}{path}", '-H "Authorization: Bearer $TOKEN"']
    if body is not None:
        quoted = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        lines += ['-H "Content-Type: application/json"', f"-d '{quoted}'"]
    return " \\\n  ".join(lines)


@register.simple_tag
def with_query(query: QueryDict, **changes: Any) -> str:
    """The page's query with some of it changed; None or an empty text takes a part out."""
    new_query = query.copy()
    for name, value in changes.items():
        new_query.pop(name, None)
        if value not in (None, ""):
            new_query[name] = str(value)
    return f"?{new_query.urlencode()}" if new_query else "?"


@register.simple_tag
def without(query: QueryDict, name: str) -> str:
    """The page's query without one filter, from its first page."""
    return with_query(query, **{name: None, "page": None})


@register.filter
def lasted(milliseconds: float) -> str:
    return times.lasted(milliseconds)


@register.filter
def bounded(count: int) -> str:
    return "99+" if count > 99 else str(count)
