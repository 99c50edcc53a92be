from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('supervisor', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='execution',
            name='parent_id',
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('task_id__isnull', False)), fields=['task_id'], name='supervisor_run_by_task'),
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('parent_id__isnull', False)), fields=['parent_id'], name='supervisor_run_by_parent'),
        ),
    ]
