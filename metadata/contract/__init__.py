"""The contract of a backend: tables, operations and their outcomes, layout, scans, changes, URLs."""
