"""One deployment of a hub of ours and an original one: the same ZooKeeper, the same bookies, the same topics."""
