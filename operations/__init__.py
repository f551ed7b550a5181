"""What the programs do to a deployment: checks, a migration, and changes through its hubs."""

if __name__ != "hedwig.operations":
    # Imported under two names, its classes exist twice: an instance of one is none of the other.
    raise ImportError("operations is imported as hedwig.operations, by that name alone")
