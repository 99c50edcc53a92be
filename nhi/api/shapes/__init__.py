"""What goes in and out of the paths, a module a subject."""
