"""The tests of the suite, in parts: a module of tests imports all of one part."""
