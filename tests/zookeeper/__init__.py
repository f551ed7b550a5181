"""Tests of the session with ZooKeeper."""
