"""The part of a worker that runs agents: one thread with one event loop that holds many child processes."""
