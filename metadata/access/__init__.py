"""Access in the metadata store: the rules, changed by compare-and-set alone."""
