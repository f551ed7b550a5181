"""What the tests of calls over a connection share."""
