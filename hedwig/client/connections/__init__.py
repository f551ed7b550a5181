"""The connections of a client to hubs, and which hub owns a topic."""
