"""Clusters of hubs on real servers that are killed, paused and parted, and the judgement over what clients saw."""
