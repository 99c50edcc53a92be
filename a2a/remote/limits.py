"""How much of a remote agent's is taken, over whichever binding."""

ANSWER = EVENT = 10 << 20
STREAM = 64 << 20
