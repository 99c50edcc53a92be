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
    for username, description, console_roles in PEOPLE:
        if not User.objects.filter(username=username).exists():
            created = people.create(actor=SYSTEM, username=username, roles=console_roles, superuser=username == "admin")
            passwords[username] = (description, created.password)
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
    identities_by_name = {identity.name: identity for identity in Identity.objects.all()}
    _seed_access(mara, identities_by_name, owners)
    lifecycle.suspend(
        actor=mara,
        identity=identities_by_name["old-scraper"],
        reason="Leaked token found in a public log",
        cause=StopCause.LEAK,
    )


def _seed_access(mara: Actor, identities_by_name: dict[str, Identity], owners: dict[str, User]) -> None:
    now = clock.database_now()
    repo_limit = {"type": "object", "properties": {"repo": {"enum": ["acme/site", "acme/docs"]}}, "required": ["repo"]}
    give_tool, give_nhi, give_user = grants.give_tool, grants.give_nhi, grants.give_user
    give_tool(
        actor=mara,
        agent=identities_by_name["deploy-bot"],
        tool=identities_by_name["github__create_issue"],
        reason="Opens release issues",
    )
    give_tool(
        actor=mara,
        agent=identities_by_name["triage-bot"],
        tool=identities_by_name["github__create_issue"],
        reason="Files confirmed bugs",
        allowed_parameters=repo_limit,
        expires_at=now + timedelta(days=30),
    )
    give_tool(
        actor=mara,
        agent=identities_by_name["triage-bot"],
        tool=identities_by_name["jira__search"],
        reason="Trial until the review",
        expires_at=now + timedelta(days=3),
    )
    give_tool(
        actor=mara,
        agent=identities_by_name["old-scraper"],
        tool=identities_by_name["jira__search"],
        reason="Price tickets",
    )
    give_nhi(
        actor=mara,
        source=identities_by_name["planner"],
        target=identities_by_name["writer"],
        permission_type="call",
        reason="Asks for drafts",
    )
    give_nhi(
        actor=mara,
        source=identities_by_name["planner"],
        target=identities_by_name["deploy-bot"],
        permission_type="delegate",
        allowed_actions=["release.*"],
        reason="Starts releases on behalf of whoever planned them",
    )
    give_user(
        actor=mara, nhi=identities_by_name["planner"], user=owners["olga"], level="use", reason="Plans the week with it"
    )
    give_user(
        actor=mara,
        nhi=identities_by_name["triage-bot"],
        user=owners["olga"],
        level="manage",
        reason="On call for support",
    )
    reader = roles.create(
        actor=mara, name="reader", patterns=["github.commits.*", "jira.search"], description="Looks, changes nothing"
    )
    roles.create(actor=mara, name="break-glass", patterns=["*.*"], description="Everything; waits for a second admin")
    roles.assign(actor=mara, role=reader, identity=identities_by_name["nightly-report"])
    roles.assign(actor=mara, role=reader, identity=identities_by_name["planner"], expires_at=now + timedelta(days=60))
    for name in ("ci", "triage-bot"):
        credentials.issue(actor=mara, holder=identities_by_name[name])
