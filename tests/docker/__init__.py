"""Tests of the images and of the compose file."""
