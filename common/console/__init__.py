"""Console mechanics that know no actor."""
