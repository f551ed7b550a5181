"""One conformance suite for the metadata, run over every backend."""
