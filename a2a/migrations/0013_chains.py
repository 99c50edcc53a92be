import common.ids
import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery


#: Of tasks within tasks.
DEEPEST = 6


def find_roots(apps, schema_editor):
    """From the top downwards: a part has the root of its whole."""
    rows = apps.get_model("a2a", "Task").objects.filter(root_id=None)
    rows.filter(parent=None).update(root_id=F("pk"))
    above = apps.get_model("a2a", "Task").objects.filter(pk=OuterRef("parent_id"))
    for _ in range(DEEPEST):
        rows.exclude(parent__root_id=None).update(root_id=Subquery(above.values("root_id")))


class Migration(migrations.Migration):

    dependencies = [
        ('a2a', '0002_callbacks'),
        ('nhi', '0005_chains'),
    ]

    operations = [
        migrations.CreateModel(
            name='AwaitedCall',
            fields=[
                ('id', models.UUIDField(default=common.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('approval_id', models.UUIDField()),
            ],
            options={
                'db_table': 'a2a_awaited_call',
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='task',
            name='behalf',
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='task',
            name='permission_type',
            field=models.CharField(choices=[('call', 'Call'), ('delegate', 'Delegate')], default='call', max_length=16),
        ),
        migrations.AddField(
            model_name='task',
            name='root_id',
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['root_id', 'created_at', 'id'], name='a2a_task_by_root'),
        ),
        migrations.AddField(
            model_name='awaitedcall',
            name='task',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='awaited_calls', to='a2a.task'),
        ),
        migrations.AddIndex(
            model_name='awaitedcall',
            index=models.Index(fields=['approval_id'], name='a2a_awaited_call_by'),
        ),
        migrations.AddConstraint(
            model_name='awaitedcall',
            constraint=models.UniqueConstraint(models.F('task'), models.F('approval_id'), name='a2a_awaited_call_once'),
        ),
        migrations.RunPython(find_roots, migrations.RunPython.noop),
    ]
