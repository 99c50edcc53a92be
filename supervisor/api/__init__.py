"""REST of the supervisor: paths translate, verbs decide. What the paths answer is in `docs/reference/rest.md`."""
