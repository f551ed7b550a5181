"""Snapshots, the tables of a store as Parquet with a manifest: taking, restoring and comparing them."""
