"""The form of records that backends share: msgpack, stamps, ledger ranges, unknown fields."""
