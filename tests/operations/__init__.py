"""Tests of what the programs do to a deployment."""
