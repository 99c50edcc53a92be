"""The chat completions API that OpenAI made and many others speak: one request, and its answer as it comes."""

from supervisor.chat.answers import Answer, Call, Used
from supervisor.chat.endpoint import Endpoint
from supervisor.chat.faults import ChatFault

__all__ = ["Answer", "Call", "ChatFault", "Endpoint", "Used"]
