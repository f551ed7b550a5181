"""The command line: hedwig-admin."""

if __name__ != "hedwig.cli":
    # Under two names its classes exist twice, and none is an instance of the other.
    raise ImportError("cli is imported as hedwig.cli, by that name alone")
