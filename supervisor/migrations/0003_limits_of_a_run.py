from django.db import migrations, models


class Migration(migrations.Migration):
    """Agents that are there go on without a limit on memory; those that are added have one unless told otherwise."""

    dependencies = [
        ('supervisor', '0002_chains'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='max_cpu_seconds',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='agent',
            name='max_memory_mb',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_memory_mb',
            field=models.PositiveIntegerField(blank=True, default=2048, null=True),
        ),
    ]
