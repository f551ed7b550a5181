"""Tests of the operations of the programs on a deployment."""
