"""What is stored of tasks, made up: 1.0's JSON with nothing in it that says nothing."""

import base64
from typing import Any

from hypothesis import strategies as st

from a2a.wire.v03 import words

STATES = sorted(words.STATES)
words_ = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
ids = st.text("abcdefghij-0123456789", min_size=1, max_size=20)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False, width=64)
plain = st.none() | st.booleans() | numbers | words_ | st.just("")
values = st.recursive(
    plain, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(words_, inside, max_size=3), max_leaves=6
)
objects = st.dictionaries(words_, values, max_size=3)
structs = st.dictionaries(words_, values, min_size=1, max_size=3)
raws = st.binary(max_size=20).map(lambda some: base64.b64encode(some).decode())
media_types = st.sampled_from(["text/plain", "application/json", "image/png; q=1"])
moments = (
    st.datetimes()
    .map(lambda at: at.replace(year=2026, microsecond=at.microsecond // 1000 * 1000 or 1000))
    .map(lambda at: f"{at.isoformat(timespec='milliseconds')}Z")
)


def some(required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


files = some({"raw": raws}, filename=words_, mediaType=media_types, metadata=structs) | some(
    {"url": words_}, filename=words_, mediaType=media_types, metadata=structs
)
texts = some({"text": st.just("") | words_}, metadata=structs)
datas = some({"data": values}, metadata=structs)
#: Parts that 0.3 can say, and those that only 1.0 can.
old_parts = texts | files | datas
parts = (
    old_parts
    | some({"text": words_}, filename=words_, mediaType=media_types)
    | some({"data": values}, mediaType=media_types)
)


def messages(
    part: st.SearchStrategy[Any], role: str | None = None, **more: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    roles = st.just(role) if role else st.sampled_from(["ROLE_USER", "ROLE_AGENT"])
    required = {"messageId": ids, "role": roles, "parts": st.lists(part, min_size=1, max_size=3)}
    return some(required, contextId=ids, taskId=ids, metadata=structs, extensions=st.lists(words_, min_size=1), **more)


references = {"referenceTaskIds": st.lists(ids, min_size=1, max_size=2)}
any_messages = messages(parts, **references)
statuses = some({"state": st.sampled_from(STATES), "timestamp": moments}, message=any_messages)
artifacts = some(
    {"artifactId": ids, "parts": st.lists(parts, min_size=1, max_size=3)},
    name=words_, description=words_, metadata=structs, extensions=st.lists(words_, min_size=1, max_size=2),
)  # fmt: skip
PLACE = {"taskId": ids, "contextId": ids}
tasks = some(
    {"id": ids, "contextId": ids, "status": statuses},
    history=st.lists(any_messages, min_size=1, max_size=2),
    artifacts=st.lists(artifacts, min_size=1, max_size=2),
    metadata=structs,
)
status_updates = some({**PLACE, "status": statuses}, metadata=structs)
artifact_updates = some(
    {**PLACE, "artifact": artifacts}, append=st.just(True), lastChunk=st.just(True), metadata=structs
)
items = st.one_of(
    st.fixed_dictionaries({"task": tasks}),
    st.fixed_dictionaries({"message": any_messages}),
    st.fixed_dictionaries({"statusUpdate": status_updates}),
    st.fixed_dictionaries({"artifactUpdate": artifact_updates}),
)
tokens = st.text("abcXYZ019-_", min_size=1, max_size=20)
callbacks = some(
    {"url": words_, "id": ids},
    token=tokens,
    authentication=some({"scheme": st.sampled_from(["Bearer", "Basic"])}, credentials=tokens),
)
configs = st.builds(lambda callback, task_id: {**callback, "taskId": task_id}, callbacks, ids)
configurations = some(
    {"returnImmediately": st.booleans()},
    acceptedOutputModes=st.lists(media_types, min_size=1, max_size=2),
    historyLength=st.integers(1, 100),
    taskPushNotificationConfig=callbacks,
)
