"""The tests of the suite, in parts. A backend's test module imports everything of one part."""
