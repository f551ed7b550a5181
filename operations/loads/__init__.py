"""Loads: very many rows or messages from a file, with a result file from which a load can resume."""
