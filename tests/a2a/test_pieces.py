"""What is made in pieces costs what is new with each of them, and is one when it is read."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from a2a import showing, writer
from a2a.changes import Made, Status
from a2a.choices import TaskState
from a2a.endpoint_room import OutputTooLarge
from a2a.models import Artifact, ArtifactPiece, Endpoint, Task
from common import canonical_json
from tests.a2a.conftest import Stage

pytestmark = [pytest.mark.capability("A2A-05"), pytest.mark.both_databases]
PIECE = "x" * 2000


@pytest.fixture
def task(stage: Stage) -> Task:
    return writer.apply_event(Task.objects.get(pk=stage.sent()).pk, Status(TaskState.WORKING))


def piece(said: str, **more: Any) -> dict[str, Any]:
    return {"artifactId": "a", "parts": [{"text": said}], **more}


def adds(task: Task, said: str, **more: Any) -> None:
    writer.apply_event(task.pk, Made(piece(said, **more), append=True))


def test_each_piece_writes_and_reads_what_is_new(task: Task) -> None:
    adds(task, PIECE, name="story")
    written, read = [], []
    for number in range(12):
        with CaptureQueriesContext(connection) as asked:
            adds(task, PIECE, name="story")
        written.append(sum(len(one["sql"]) for one in asked))
        # The parts are in pieces, which none of these asks for.
        read.append(len(json.dumps(Artifact.objects.get().body)))
        assert not [one for one in asked if '"a2a_artifact_piece"."parts"' in one["sql"] and number]
    assert max(written[1:]) - min(written[1:]) < 200
    assert max(written[1:]) < 3 * len(PIECE) + 10_000
    assert set(read) == {len(json.dumps({"artifactId": "a", "name": "story", "parts": []}))}
    [whole] = showing.made(task.pk)
    assert whole == {"artifactId": "a", "name": "story", "parts": [{"text": PIECE}] * 13}
    assert showing.tasks([task])[0]["artifacts"] == [whole]


def test_what_a_later_piece_says_of_the_whole_holds(task: Task) -> None:
    adds(task, "one", name="draft", metadata={"seen": 1})
    adds(task, "two")
    adds(task, "three", name="final")
    whole = {"artifactId": "a", "name": "final", "metadata": {"seen": 1}}
    assert showing.made(task.pk) == [{**whole, "parts": [{"text": one} for one in ("one", "two", "three")]}]


def test_what_is_said_of_the_whole_is_read_once(task: Task) -> None:
    for number in range(5):
        adds(task, "more", **({"metadata": {"long": PIECE}} if number == 0 else {}))
    rows = list(showing.in_pieces(Artifact.objects.filter(task=task)))
    assert [said is None for _, _, said, _ in rows] == [False, True, True, True, True]
    assert len(showing.made(task.pk)[0]["parts"]) == 5


def test_another_takes_the_place_of_all_pieces(task: Task) -> None:
    for said in ("one", "two", "three"):
        adds(task, said)
    writer.apply_event(task.pk, Made(piece("anew")))
    assert showing.made(task.pk) == [piece("anew")]
    assert not ArtifactPiece.objects.exists()
    adds(task, "and more")
    assert [one["text"] for one in showing.made(task.pk)[0]["parts"]] == ["anew", "and more"]


def test_several_pieces_of_one_moment_and_of_several_artifacts_keep_their_order(task: Task) -> None:
    beside = {"artifactId": "b", "parts": [{"text": "beside"}]}
    adds(task, "one")
    more = [Made(piece(said), append=True) for said in ("two", "three")]
    writer.apply_event(task.pk, more[0], Made(beside), more[1], Made(beside, append=True))
    assert [[one["text"] for one in made["parts"]] for made in showing.made(task.pk)] == [
        ["one", "two", "three"], ["beside", "beside"],
    ]  # fmt: skip


def test_all_pieces_together_are_as_large_as_the_agent_may_make_and_no_larger(stage: Stage, task: Task) -> None:
    whole = {"artifactId": "a", "parts": [{"text": "é" * 40}] * 3, "name": "story"}
    most = len(canonical_json.encode(whole))
    Endpoint.objects.update_or_create(identity_id=stage.writer.pk, defaults={"max_output_size": most - 1})
    for _ in range(2):
        adds(task, "é" * 40, name="story")
    with pytest.raises(OutputTooLarge):
        adds(task, "é" * 40)
    Endpoint.objects.update(max_output_size=most)
    adds(task, "é" * 40)
    assert showing.made(task.pk) == [whole]


def test_the_result_is_of_all_pieces(task: Task) -> None:
    for said in ("one", "two"):
        adds(task, said)
    done = writer.apply_event(task.pk, Status(TaskState.COMPLETED))
    assert done.result == {"parts": [{"text": "one"}, {"text": "two"}]}
