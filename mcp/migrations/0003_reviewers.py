"""Who has a part in a definition that waits: as rows, for tools that wait while a house is upgraded too."""

import json
from typing import Any

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import common.ids

CAPABILITY = "capability"


def places_of(identity: dict[str, Any]) -> dict[str, str]:
    places: dict[str, str] = {}
    for name, value in identity.items():
        if isinstance(value, dict):
            places |= {f"{name}.{key}": json.dumps(item, sort_keys=True) for key, item in value.items()}
        else:
            places[name] = json.dumps(value, sort_keys=True)
    return places


def changed_places(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    old, new = places_of(before), places_of(after)
    return [place for place in {**old, **new} if old.get(place) != new.get(place)]


def record_parts(apps: Any, schema_editor: Any) -> None:
    """From the versions that tools which wait have had since they were approved; a version names who made it."""
    Tool, PendingChange = apps.get_model("mcp", "Tool"), apps.get_model("mcp", "PendingChange")
    waiting = Tool.objects.exclude(current=None).exclude(approved=models.F("current"))
    for tool in waiting.select_related("server", "approved", "current").iterator(chunk_size=200):
        approved = tool.approved
        rows: dict[tuple[str, Any], Any] = {}

        def add(place: str, person: Any, name: str, at: Any) -> None:
            if person is not None:
                rows[place[:300], person] = PendingChange(
                    tool=tool, place=place[:300], changed_by_id=person, changed_by_name=name, changed_at=at
                )

        before = approved
        for version in tool.definitions.filter(number__gt=approved.number if approved else 0).order_by("number"):
            if version.server_moved and before is not None:
                for place in changed_places(before.body.get("server") or {}, version.body.get("server") or {}):
                    add(place, version.changed_by_id, version.changed_by_name, version.seen_at)
            elif version.changed_by_id is not None:
                add(CAPABILITY, version.changed_by_id, version.changed_by_name, version.seen_at)
            before = version
        base = approved.body if approved else {}
        if approved and base.get("capability") == tool.current.body.get("capability"):
            pass
        elif tool.capability_by_id is not None:
            add(CAPABILITY, tool.capability_by_id, _name_of(apps, tool.capability_by_id), tool.current.seen_at)
        PendingChange.objects.bulk_create(rows.values(), ignore_conflicts=True)


def _name_of(apps: Any, person: Any) -> str:
    User, Identity = apps.get_model("nhi", "User"), apps.get_model("nhi", "Identity")
    user = User.objects.filter(pk=person).values_list("username", flat=True).first()
    return user or Identity.objects.filter(pk=person).values_list("name", flat=True).first() or "unknown"


class Migration(migrations.Migration):
    dependencies = [("mcp", "0002_approval_origins"), ("nhi", "0010_invocation_row_version")]

    operations = [
        migrations.CreateModel(
            name="PendingChange",
            fields=[
                ("id", models.UUIDField(default=common.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("place", models.CharField(max_length=300)),
                ("changed_by_id", models.UUIDField()),
                ("changed_by_name", models.CharField(max_length=192)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "tool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pending_changes", to="mcp.tool"
                    ),
                ),
            ],
            options={
                "db_table": "mcp_pending_change",
                "ordering": ["changed_at", "id"],
                "default_permissions": (),
                "indexes": [models.Index(fields=["changed_by_id", "tool"], name="mcp_pending_change_by_whom")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tool", "place", "changed_by_id"), name="mcp_pending_change_once"
                    )
                ],
            },
        ),
        migrations.AddField("server", "changed_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("tooldefinition", "flagged_by", models.CharField(blank=True, max_length=64, default="")),
        migrations.RunPython(record_parts, migrations.RunPython.noop),
        migrations.RemoveField("tool", "capability_by_id"),
        migrations.RemoveField("tooldefinition", "server_moved"),
    ]
