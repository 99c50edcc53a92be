"""Where a page of a log begins stands in its address, unsigned: anybody may have written it."""

import pytest
from django.test import Client

from tests.console.conftest import hub, identity

pytestmark = pytest.mark.capability("CON-05")


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "9999-99-99T00:00:00Z"])
def test_a_place_in_the_record_that_is_no_moment_is_the_first_page(mara: Client, side: str, moment: str) -> None:
    place = {side: f"{moment}~{identity().pk}"}
    for page in ("/admin/nhi/auditevent/", hub(tab="changes/")):
        shown = mara.get(page, place)
        assert shown.status_code == 200
        assert list(shown.context["keyset"].rows) == list(mara.get(page).context["keyset"].rows)
