"""Snapshots: a store as Parquet with a manifest, restored, copied and compared."""
