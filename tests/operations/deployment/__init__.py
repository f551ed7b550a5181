"""Tests of how a deployment is reached."""
