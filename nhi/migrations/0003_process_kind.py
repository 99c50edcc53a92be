from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('nhi', '0002_invocation_log'),
    ]

    operations = [
        migrations.AlterField(
            model_name='process',
            name='kind',
            field=models.CharField(choices=[('web', 'Web'), ('worker-control', 'Worker (control)'), ('worker-runs', 'Worker (runs)'), ('beat', 'Beat'), ('stdio-owner', 'Stdio owner')], max_length=16),
        ),
    ]
