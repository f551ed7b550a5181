"""An HBase cluster: its servers and regions, where rows are, and the calls that share a server."""
