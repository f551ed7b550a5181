"""The metadata in bulk: loading, copying, comparing, exporting, finding faults and repairing them."""
