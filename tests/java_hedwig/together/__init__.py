"""One deployment of our hub and an original one: the same ZooKeeper, the same bookies, the same topics."""
