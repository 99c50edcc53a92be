"""The runtime behind an agent that is another A2A server: tasks are carried there, and what comes of them back.

target       how it is reached: place, version, binding, credential
carrying     one task, from its first message to its end; this is what a dispatcher calls
forwarding   telling the other side of an end that was made here
cards, asking, reading, changing    the protocol's words, both versions and bindings, without the network
finding, client, troubles, pausing, guarding    the network
keeping, relaying, watching    the rows
errands      all of it, as a dispatcher asks for it
testing, probing, judging    whether it could be sent a task: on demand, on record, without sending one
"""

from a2a.remote.carrying import Carried, carry
from a2a.remote.forwarding import forward_cancel
from a2a.remote.target import Credential, Target

__all__ = ["Carried", "Credential", "Target", "carry", "forward_cancel"]
