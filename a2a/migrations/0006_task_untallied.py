from django.db import migrations, models


def take_the_time(apps, schema_editor):
    """As long as the index of all tasks takes: tasks are read meanwhile, and written when it is there."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL statement_timeout = 0")


class Migration(migrations.Migration):
    dependencies = [
        ("a2a", "0005_task_tallies"),
    ]

    operations = [
        migrations.RunPython(take_the_time, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                fields=["completed_at", "agent", "source", "created_by_id", "state", "tallied_at"],
                condition=models.Q(("tallied_at", None)),
                name="a2a_task_untallied",
            ),
        ),
    ]
