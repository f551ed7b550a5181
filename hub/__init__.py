"""The server of Hedwig."""

if __name__ != "hedwig.hub":
    # Under two names its classes exist twice, and none is an instance of the other.
    raise ImportError("hub is imported as hedwig.hub, by that name alone")
