"""The console's pages of this app. Importing a module registers what it has."""
