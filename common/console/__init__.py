"""Console pages, lists, forms and dialogs, independent of actors and their rights."""
