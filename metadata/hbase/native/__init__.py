"""HBase's own RPC, straight from here to the region servers."""
