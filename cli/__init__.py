"""The command line: hedwig-admin."""

if __name__ != "hedwig.cli":
    # Imported under two names, its classes exist twice: an instance of one is none of the other.
    raise ImportError("cli is imported as hedwig.cli, by that name alone")
