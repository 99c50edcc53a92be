"""Whatever shows a credential asks a session for a fresh proof first: no view or dialog is forgotten."""

import inspect

import pytest

from common.api.operations import of_handler
from common.console.confirmation_dialogs import Dialog
from nhi.api.shapes.credentials import IssuedShape
from nhi.api.views import ApiView
from nhi.console.base import FreshProofDialog

pytestmark = pytest.mark.capability("NHI-04", "CON-01")
#: Calls that make a credential and show it.
SHOWS = ("credentials.issue(", "credentials.rotate(", "credentials.replace(")


def subclasses(kind: type) -> set[type]:
    return {below for child in kind.__subclasses__() for below in {child, *subclasses(child)}}


def test_every_rest_verb_that_shows_a_credential_asks_for_proof() -> None:
    handlers = [getattr(view, name, None) for view in subclasses(ApiView) for name in ("get", "post", "patch", "put")]
    declared = [operation for operation in map(of_handler, handlers) if operation is not None]
    showing = {operation for operation in declared if issubclass(operation.gives, IssuedShape)}
    assert len(showing) == 2
    assert all(operation.proof for operation in showing)
    shows = {handler for handler in handlers if handler and any(call in inspect.getsource(handler) for call in SHOWS)}
    assert all(of_handler(handler) in showing for handler in shows)


def test_every_dialog_that_shows_a_credential_asks_for_proof() -> None:
    dialogs = {kind for kind in subclasses(Dialog) if any(call in inspect.getsource(kind) for call in SHOWS)}
    assert len(dialogs) == 3
    assert all(issubclass(kind, FreshProofDialog) for kind in dialogs), dialogs
