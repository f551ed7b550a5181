"""Migration: all metadata moved to another store while hubs use the first."""
