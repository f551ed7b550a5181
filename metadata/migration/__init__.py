"""Migration: moving all metadata to another store while hubs use the first."""
