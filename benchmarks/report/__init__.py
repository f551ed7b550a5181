"""Reports: tables, charts and pages of results."""
