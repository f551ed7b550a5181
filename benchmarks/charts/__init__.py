"""Charts: pictures that are drawn of measurements, each kind from a table of what is to be in it."""
