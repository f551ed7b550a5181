"""Tests of Hedwig, laid out like the packages they prove."""
