"""Metadata as frames: schemas, columns, rows, and the folders that hold them."""
