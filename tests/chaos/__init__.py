"""Clusters of hubs on real servers that tests kill, pause and part, and the checks of what clients saw."""
