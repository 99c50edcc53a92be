"""REST of the gateway: paths translate, verbs decide. What the paths answer is in `docs/reference/rest.md`."""
