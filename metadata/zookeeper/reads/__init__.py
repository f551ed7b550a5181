"""Reading many znodes: listings, scans, changes and key ranges."""
