"""Segments: the files that hold local ledgers, their index, and the disk that they share."""
