"""The topics of a hub: how it acquires, serves, balances and releases each."""
