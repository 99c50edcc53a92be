from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('nhi', '0004_run_credential'),
    ]

    operations = [
        migrations.AddField(
            model_name='credential',
            name='chain',
            field=models.JSONField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='invocationlog',
            index=models.Index(condition=models.Q(('task_id', ''), _negated=True), fields=['task_id'], name='nhi_invocation_by_task'),
        ),
    ]
