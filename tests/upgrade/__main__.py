"""`python -m tests.upgrade sealed` prints the open values of a database, `… counts` its rows by table.

`… rows JSON` adds rows and prints what to expect of all of it.

They need the settings of the installation, and are run by `installation.run_apart`.
"""

import json
import sys

import django


def main(verb: str, *arguments: str) -> None:
    django.setup()
    if verb == "rows":
        from tests.upgrade import rows

        answer = rows.add(json.loads(arguments[0]))
    else:
        from tests.upgrade import values

        answer = {"sealed": values.sealed, "counts": values.tables_and_counts}[verb]()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
