"""Hubs of a cluster, on real ZooKeeper, HBase and bookies."""
