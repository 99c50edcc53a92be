"""axe-core, vendored, run inside the page by the browser itself: no script tag, so no hole in the policy."""

from pathlib import Path

from playwright.sync_api import Page

SOURCE = (Path(__file__).parent.parent / "vendor" / "axe-core" / "axe.min.js").read_text()
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
LANDMARKS = [
    "landmark-banner-is-top-level", "landmark-contentinfo-is-top-level", "landmark-main-is-top-level",
    "landmark-no-duplicate-banner", "landmark-no-duplicate-contentinfo", "landmark-no-duplicate-main",
    "landmark-one-main", "landmark-unique", "region", "page-has-heading-one",
]  # fmt: skip


def violations(page: Page) -> list[str]:
    """What it found, a line each: the rule, where, and what it says."""
    page.evaluate(SOURCE)
    options = {
        "runOnly": {"type": "tag", "values": TAGS},
        "rules": {rule: {"enabled": True} for rule in LANDMARKS},
        # Every rule is looked at; where it holds, it need not be told of each element, which takes most of the time.
        "resultTypes": ["violations"],
    }
    found = page.evaluate("options => axe.run(document, options).then(found => found.violations)", options)
    return [
        f"{page.url}: {rule['id']}: {node['target']} {node['html'][:160]} {node['failureSummary'][:200]}"
        for rule in found
        for node in rule["nodes"]
    ]
