"""Subscriptions: attaching, delivery, consume pointers, and operator actions."""
