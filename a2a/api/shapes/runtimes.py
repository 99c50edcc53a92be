"""What does the tasks of an agent, as it is read and chosen."""

from rest_framework import serializers

from a2a.choices import Binding, RuntimeKind, Shown, Tested, TestStep, WireVersion
from common.api.fields import Flag, Identifier, Moment, Text, Word
from common.api.shapes import Input, Shape
from common.api.value_fields import Seconds
from nhi.api.shapes import examples as story
from supervisor.api.shapes import examples
from supervisor.api.shapes.fields import WholeSecondsGiven


class RunsShape(Shape):
    """An agent that runs here."""

    id = Identifier()
    name = Text()
    enabled = Flag()


class RemoteShape(Shape):
    """A server of the A2A protocol."""

    url = Text()
    wire_version = Word(choices=WireVersion.choices)
    binding = Word(choices=Binding.choices)
    header = Text(help_text="The one that the credential goes into.")
    scheme = Text(help_text="The word before the credential.")
    has_credential = Flag(source="sealed_credential")
    timeout = Seconds(help_text="Of one answer.")


class RuntimeShape(Shape):
    identity_id = Identifier()
    kind = Word(choices=RuntimeKind.choices)
    derived = Flag(help_text="Nobody chose: it follows from what runs as the agent.")
    agent = RunsShape(allow_null=True, help_text="Of a program and a model.")
    remote = RemoteShape(allow_null=True, help_text="Of another server.")
    chosen_by = serializers.CharField(allow_null=True)
    chosen_at = Moment(allow_null=True)

    example = {
        "identity_id": story.WRITER,
        "kind": "cli",
        "derived": False,
        "agent": {"id": examples.AGENT, "name": "summarise", "enabled": True},
        "remote": None,
        "chosen_by": "mara",
        "chosen_at": story.NOW,
    }


class Choice(Input):
    kind = Word(choices=RuntimeKind.choices, help_text="`remote` where something here speaks to other servers.")
    agent_id = Identifier(
        required=False, allow_null=True, help_text="Of `cli` and `model`: one that runs as the agent."
    )
    url = Text(required=False, help_text="Of `remote`: of its card, or the place that its card is below.")
    wire_version = Word(choices=WireVersion.choices, required=False)
    binding = Word(choices=Binding.choices, required=False)
    header = Text(required=False, help_text="`Authorization` unless you say another.")
    scheme = Text(required=False, help_text="Like `Bearer`.")
    credential = Text(required=False, help_text="Kept encrypted and never given back; empty takes it away.")
    timeout = WholeSecondsGiven(required=False, help_text="Of one answer.")

    example = {"kind": "cli", "agent_id": examples.AGENT}


class RemoteInterfaceShape(Shape):
    """Where tasks would be sent, and how."""

    url = Text(help_text="Without its query.")
    wire_version = Text()
    binding = Text()


class RemoteStepShape(Shape):
    step = Word(choices=TestStep.choices)
    passed = Flag()
    message = Text()


class RemoteTestShape(Shape):
    """What a test of another server found."""

    identity_id = Identifier()
    works = Flag(help_text="Only if `outcome` is `works`.")
    outcome = Word(choices=Tested.choices)
    message = Text(help_text="What was found, in sentences.")
    advice = Text(help_text="What to do about it; empty where there is nothing to do.")
    credential = Word(choices=Shown.choices, help_text="What the server thinks of it.")
    agent_name = Text(help_text="By its card; empty without one.")
    interface = RemoteInterfaceShape(allow_null=True, help_text="`null` where none was found.")
    steps = RemoteStepShape(many=True, help_text="Those that were taken: the last is the one that failed, if one did.")

    example = {
        "identity_id": story.WRITER,
        "works": True,
        "outcome": "works",
        "message": "It answers in A2A 1.0 over JSON-RPC at https://agents.example.com/rpc. It takes our credential.",
        "advice": "",
        "credential": "accepted",
        "agent_name": "Minutes",
        "interface": {"url": "https://agents.example.com/rpc", "wire_version": "1.0", "binding": "JSONRPC"},
        "steps": [
            {
                "step": "card",
                "passed": True,
                "message": "There is a card of “Minutes” at https://agents.example.com/.well-known/agent-card.json.",
            },
            {
                "step": "interface",
                "passed": True,
                "message": "It is spoken to in A2A 1.0 over JSON-RPC at https://agents.example.com/rpc.",
            },
            {"step": "task", "passed": True, "message": "It knows no task that nobody has. It takes our credential."},
        ],
    }
