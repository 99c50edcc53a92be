"""`python -m tests.frozen`: write the lists of frozen values as the tree has them now. Read the diff: a line that goes
is a value that stored data, clients or configurations may still use."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from tests.frozen.test_frozen import KINDS, VALUES  # noqa: E402  # Django first

for kind, collect in KINDS.items():
    lines = sorted(value.encode("unicode_escape").decode() for value in collect())
    (VALUES / f"{kind}.txt").write_text("".join(f"{line}\n" for line in lines))
