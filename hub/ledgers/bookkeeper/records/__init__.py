"""The records of ledgers in ZooKeeper, as BookKeeper keeps them."""
