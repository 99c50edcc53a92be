"""Shapes of tasks between agents, by what they are of."""
