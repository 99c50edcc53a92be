"""What can go wrong with a model's endpoint, and what that says of it."""

from supervisor.choices import ErrorCategory

LONGEST_SAID = 300


class ChatFault(Exception):
    """No answer came that can be used."""

    def __init__(self, category: ErrorCategory, what: str, *, said: str = "", wait: float = 0.0) -> None:
        quoted = " ".join(said.split())[:LONGEST_SAID]
        super().__init__(f"{what} It said: {quoted}" if quoted else what)
        self.category = category
        #: In our own words; the whole message has some of the endpoint's too.
        self.what = what
        #: Seconds that it asks to be left alone for.
        self.wait = wait

    @property
    def is_the_services(self) -> bool:
        """Whether it counts against the endpoint. One that says what is wrong with a request is well."""
        return self.category != ErrorCategory.PERMANENT


def passing(what: str, *, said: str = "", wait: float = 0.0) -> ChatFault:
    return ChatFault(ErrorCategory.TRANSIENT, what, said=said, wait=wait)


def lasting(what: str, *, said: str = "") -> ChatFault:
    return ChatFault(ErrorCategory.PERMANENT, what, said=said)


def unreadable(what: str) -> ChatFault:
    return ChatFault(ErrorCategory.AGENT_ERROR, what)
