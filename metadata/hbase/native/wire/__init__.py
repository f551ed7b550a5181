"""HBase's RPC on the wire: a connection, its codec, and what failures mean."""
