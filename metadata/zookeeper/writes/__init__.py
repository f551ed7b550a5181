"""Writing znodes: compare-and-set, its versions, and creates and deletes that travel together."""
