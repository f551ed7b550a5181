"""Clients that behave beside clients that do not: the former are served, and the hub's memory stays bounded.

Progress is asserted, not speed; docs/reference/hub-limits.md has the times.
"""
