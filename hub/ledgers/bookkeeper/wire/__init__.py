"""The bookie protocol without a socket: requests, entries, digests and quorums."""
