from django.db import migrations, models


class Migration(migrations.Migration):
    """Neither database writes a row again for a column that is null: the next migration's index is made when its lock is
    gone."""

    dependencies = [
        ("a2a", "0004_task_cancel_reason"),
    ]

    operations = [
        migrations.CreateModel(
            name="Tally",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("agent_id", models.UUIDField()),
                ("source_id", models.UUIDField(null=True)),
                ("created_by_id", models.UUIDField(null=True)),
                ("state", models.CharField(max_length=16)),
                ("tasks", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "db_table": "a2a_task_tally",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["agent_id"], name="a2a_tally_by_agent"),
                    models.Index(fields=["source_id"], name="a2a_tally_by_source"),
                    models.Index(fields=["created_by_id"], name="a2a_tally_by_creator"),
                ],
            },
        ),
        migrations.AddField(
            model_name="task",
            name="tallied_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
