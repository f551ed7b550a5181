"""Tests of hedwig-admin."""
