from django.db import migrations, models


class Migration(migrations.Migration):
    """The default is Django's alone: no database alters the table, which SQLite would write anew without its guards."""

    dependencies = [
        ("nhi", "0009_accounts"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="invocationlog",
                    name="row_version",
                    field=models.PositiveSmallIntegerField(default=2),
                ),
            ],
        ),
    ]
