"""Drivers of records: the managers, HBase's native and Thrift clients, happybase, znodes."""
