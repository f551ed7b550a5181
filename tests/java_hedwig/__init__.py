"""Compatibility of the ZooKeeper layout with the original Java Hedwig 4.3.2, in both directions."""
