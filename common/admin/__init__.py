"""What every page of the console is made of."""
