"""The console's people over tasks of the demo's identities."""

from tests.console.conftest import _no_kept_counts as _no_kept_counts
from tests.console.conftest import mara as mara
from tests.console.conftest import seeded as seeded
from tests.console.conftest import signed_in as signed_in
from tests.console.conftest import visit as visit
