"""Console mechanics that know the actor; the pages of all apps use them."""
