"""A topic whose clients behave beside clients that do not: others go on, and the hub's memory stays bounded.

Progress is asserted, not speed; docs/reference/hub-limits.md has the times.
"""
