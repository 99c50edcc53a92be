from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('nhi', '0003_process_kind'),
    ]

    operations = [
        migrations.AddField(
            model_name='credential',
            name='execution_id',
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddConstraint(
            model_name='credential',
            constraint=models.UniqueConstraint(condition=models.Q(('execution_id__isnull', False)), fields=('execution_id',), name='nhi_credential_one_per_run'),
        ),
    ]
