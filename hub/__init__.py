"""The server of Hedwig."""

if __name__ != "hedwig.hub":
    # If it is imported under two names, each class exists twice, and instances of one are not instances of the other.
    raise ImportError("hub is imported as hedwig.hub, by that name alone")
