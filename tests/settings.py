"""The product's settings, with a data directory and keys that belong to this test process alone.

Read before any conftest, so it is here that the environment is made safe: nothing a test does reaches a developer's
data directory. DATABASE_URL and BROKER_URL are taken as they are given.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

if "GATEHOUSE_TEST_DATA" not in os.environ:
    os.environ["GATEHOUSE_TEST_DATA"] = tempfile.mkdtemp(prefix="gatehouse-test-")
    atexit.register(shutil.rmtree, os.environ["GATEHOUSE_TEST_DATA"], ignore_errors=True)
os.environ["GATEHOUSE_DATA"] = str(
    Path(os.environ["GATEHOUSE_TEST_DATA"]) / os.environ.get("PYTEST_XDIST_WORKER", "main")
)
KEYS_FOR_TESTS = {
    "SECRET_KEY": "a secret key for tests, and for nothing else",
    "TOKEN_PEPPER": "a token pepper for tests, and for nothing else",
    "FIELD_KEYS": f"t1:{'A' * 43}",
    "SIGNING_KEYS": f"t1:{'B' * 42}A",
}
os.environ.update(KEYS_FOR_TESTS)

from config.settings import *  # noqa: E402, F403 - the settings under test are all of them
from config.settings import DATA, DATABASES  # noqa: E402 - the environment comes first

DATA.mkdir(mode=0o700, parents=True, exist_ok=True)
# The hasher's slowness is Django's promise, not ours; a test that needs it asks for it.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Every test client loads the middleware anew, which would list and read the head of each static file each time. Houses
# under test have the product's settings, and serve what they listed.
WHITENOISE_AUTOREFRESH = True
if "pool" in DATABASES["default"].get("OPTIONS", {}):
    # One process stands for many here, and a thread that a test cuts off in the middle keeps its connection.
    DATABASES["default"]["OPTIONS"]["pool"]["max_size"] = 30
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file as in production: the in-memory default is shared by threads without waiting for locks.
    DATABASES["default"]["TEST"] = {"NAME": DATA / "test.sqlite3"}
