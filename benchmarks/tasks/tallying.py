"""What the sweep does in its time, at once: whatever has ended is tallied, and the database looks at what it has.

python -m benchmarks.tasks.tallying
"""


def tally() -> None:
    from django.db import connection

    from a2a import tallies

    while tallies.add_up():
        pass
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


if __name__ == "__main__":
    import django

    django.setup()
    tally()
