"""Charts: pictures of measurements, each kind drawn from a table of what it shows."""
