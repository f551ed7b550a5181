"""Subscriptions: attaching, delivery, consume pointers, and what operators do to them."""
