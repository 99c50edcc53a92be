"""Compute next due times anew: rules changed for nights in which the clock changes.

A stored time that is earlier than the new one stays. It may stand for a local time that a clock change has just left
out: the former rules fired it some minutes after the gap, the new ones at its end, which has passed.
"""

from django.db import migrations

from supervisor.schedules import clock, cron, due_times


def recompute(apps, schema_editor):
    schedules = apps.get_model("supervisor", "Schedule").objects.using(schema_editor.connection.alias)
    now = clock.now()
    firing = schedules.filter(removed_at=None, enabled=True, paused_at=None, next_execution__gt=now)
    rows = firing.values_list("pk", "cron_expression", "timezone", "next_execution")
    for pk, expression, timezone, stored in rows.order_by("pk"):
        try:
            due = due_times.after(due_times.parsed(expression), cron.zone(timezone), now)
        except (cron.BadCron, cron.BadZone):
            continue
        if due is not None and due < stored:
            schedules.filter(pk=pk, next_execution=stored).update(next_execution=due)


class Migration(migrations.Migration):

    dependencies = [
        ("supervisor", "0006_attempt_last_piece"),
    ]

    operations = [
        migrations.RunPython(recompute, migrations.RunPython.noop),
    ]
