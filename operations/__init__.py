"""What the programs do to a deployment: its checks, its migration, what is changed through its hubs."""

if __name__ != "hedwig.operations":
    # Under two names its classes exist twice, and none is an instance of the other.
    raise ImportError("operations is imported as hedwig.operations, by that name alone")
