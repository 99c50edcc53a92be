"""REST of tasks between agents: paths translate, verbs decide."""
