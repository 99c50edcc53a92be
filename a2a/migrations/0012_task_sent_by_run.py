from django.db import migrations, models


def take_the_time(apps, schema_editor):
    """The index holds no row at first, but all tasks are read for it."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL statement_timeout = 0")


class Migration(migrations.Migration):
    """Neither database writes a row again for a column that is null."""

    dependencies = [
        ("a2a", "0011_task_relayed"),
    ]

    operations = [
        migrations.RunPython(take_the_time, migrations.RunPython.noop),
        migrations.AddField(
            model_name="task",
            name="sent_by_run_id",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("sent_by_run_id__isnull", False)), fields=["sent_by_run_id"], name="a2a_task_by_run"
            ),
        ),
    ]
