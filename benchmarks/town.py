"""One installation of a given size, in a process of its own: answers each line of its input with what one round cost.

python -m benchmarks.town IDENTITIES GRANTS
"""

import sys
import time

#: An allow by a direct grant, an allow by a role, a deny because nothing covers it.
QUESTIONS = ("granted", "by_role", "never")
KEYS = {
    "SECRET_KEY": "a secret key for a measurement, and nothing else",
    "TOKEN_PEPPER": "a token pepper for a measurement, and nothing else",
    "FIELD_KEYS": f"b1:{'A' * 43}",
}


def main(identities: int, grants: int) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import transaction

    from tests.scale import town

    call_command("migrate", verbosity=0)
    with transaction.atomic():
        there = town.build(identities, grants)
    print("ready", flush=True)
    for _line in sys.stdin:
        costs = []
        for name in QUESTIONS:
            began = time.perf_counter()
            there.ask(getattr(there, name))
            costs.append(f"{(time.perf_counter() - began) * 1000:.4f}")
        print(*costs, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
