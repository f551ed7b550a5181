"""An HBase cluster: its servers and regions, the locations of rows, and the calls that share a server."""
