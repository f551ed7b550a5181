"""Subscriptions, and the connections that serve them."""
