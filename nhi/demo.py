"""Seeds the demo: people, identities, grants and roles."""

from datetime import timedelta

from common.db import clock
from nhi import actors
from nhi.access import grants, roles
from nhi.actors import SYSTEM, Actor
from nhi.choices import Kind, StopCause
from nhi.credentials import credentials
from nhi.identities import identities, lifecycle
from nhi.models import Identity, User
from nhi.people import people

PEOPLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("admin", "superuser", ()),
    ("mara", "security admin", ("security-admin",)),
    ("tom", "approver", ("approver",)),
    ("olga", "operator", ("operator",)),
    ("ada", "auditor", ("auditor",)),
)
AGENTS: tuple[tuple[str, str, str, str, str], ...] = (
    ("deploy-bot", "mara", "Platform", "prod", "Ships the site and opens issues when a release fails"),
    ("triage-bot", "tom", "Support", "prod", "Reads new tickets and sorts them"),
    ("planner", "mara", "Platform", "prod", "Splits a goal into tasks for other agents"),
    ("writer", "olga", "Docs", "staging", "Drafts release notes on request"),
    ("old-scraper", "tom", "Research", "dev", "Collected prices until it was found to leak"),
)
SERVICE_ACCOUNTS: tuple[tuple[str, str, str, str, str], ...] = (
    ("nightly-report", "olga", "Finance", "prod", "Builds the report that goes out at six"),
    ("ci", "mara", "Platform", "prod", "Runs the pipelines"),
)
TOOLS: tuple[tuple[str, str], ...] = (
    ("github__create_issue", "mara"),
    ("github__commits/list", "mara"),
    ("github__delete_repo", "mara"),
    ("jira__search", "tom"),
    ("jira__edit", "tom"),
)


def seed() -> dict[str, tuple[str, str]]:
    """Create missing demo data. Return description and password of each newly created person, by name."""
    passwords = {}
    for username, what, console_roles in PEOPLE:
        if not User.objects.filter(username=username).exists():
            made = people.create(actor=SYSTEM, username=username, roles=console_roles, superuser=username == "admin")
            passwords[username] = (what, made.password)
    if not Identity.objects.exists():
        _seed_identities(actors.person(User.objects.get(username="mara")))
    return passwords


def _seed_identities(mara: Actor) -> None:
    owners = {user.username: user for user in User.objects.all()}
    soon = clock.database_now() + timedelta(days=6)
    for kind, rows in ((Kind.AGENT, AGENTS), (Kind.SERVICE_ACCOUNT, SERVICE_ACCOUNTS)):
        for name, owner, team, environment, purpose in rows:
            # Not tom: he could not approve calls of identities that he owns.
            backup = owners["mara"] if owner != "mara" else owners["admin"]
            identities.create(
                actor=mara, kind=kind, name=name, owner=owners[owner], backup_owner=backup, team=team,
                environment=environment, purpose=purpose, tags=[environment],
                expires_at=soon if name == "writer" else None,
            )  # fmt: skip
    for name, owner in TOOLS:
        identities.create(actor=mara, kind=Kind.TOOL, name=name, owner=owners[owner])
    named = {identity.name: identity for identity in Identity.objects.all()}
    _seed_access(mara, named, owners)
    lifecycle.suspend(
        actor=mara,
        identity=named["old-scraper"],
        reason="Leaked token found in a public log",
        cause=StopCause.LEAK,
    )


def _seed_access(mara: Actor, named: dict[str, Identity], owners: dict[str, User]) -> None:
    now = clock.database_now()
    repo = {"type": "object", "properties": {"repo": {"enum": ["acme/site", "acme/docs"]}}, "required": ["repo"]}
    tool, nhi, user = grants.give_tool, grants.give_nhi, grants.give_user
    tool(actor=mara, agent=named["deploy-bot"], tool=named["github__create_issue"], reason="Opens release issues")
    tool(
        actor=mara, agent=named["triage-bot"], tool=named["github__create_issue"], reason="Files confirmed bugs",
        allowed_parameters=repo, expires_at=now + timedelta(days=30),
    )  # fmt: skip
    tool(
        actor=mara, agent=named["triage-bot"], tool=named["jira__search"], reason="Trial until the review",
        expires_at=now + timedelta(days=3),
    )  # fmt: skip
    tool(actor=mara, agent=named["old-scraper"], tool=named["jira__search"], reason="Price tickets")
    nhi(actor=mara, source=named["planner"], target=named["writer"], permission_type="call", reason="Asks for drafts")
    nhi(
        actor=mara, source=named["planner"], target=named["deploy-bot"], permission_type="delegate",
        allowed_actions=["release.*"], reason="Starts releases on behalf of whoever planned them",
    )  # fmt: skip
    user(actor=mara, nhi=named["planner"], user=owners["olga"], level="use", reason="Plans the week with it")
    user(actor=mara, nhi=named["triage-bot"], user=owners["olga"], level="manage", reason="On call for support")
    reader = roles.create(
        actor=mara, name="reader", patterns=["github.commits.*", "jira.search"], description="Looks, changes nothing"
    )
    roles.create(actor=mara, name="break-glass", patterns=["*.*"], description="Everything; waits for a second admin")
    roles.assign(actor=mara, role=reader, identity=named["nightly-report"])
    roles.assign(actor=mara, role=reader, identity=named["planner"], expires_at=now + timedelta(days=60))
    for name in ("ci", "triage-bot"):
        credentials.issue(actor=mara, holder=named[name])
