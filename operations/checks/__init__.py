"""Checks of a deployment: what is wrong with its stores, hubs and ledgers, and the repairs."""
