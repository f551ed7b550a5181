"""Drivers of hubs: raw frames, our client, the Java client, and znodes as messages."""
