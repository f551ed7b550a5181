"""Checks of a deployment: they find what is wrong with its stores, hubs and ledgers, and repair it."""
