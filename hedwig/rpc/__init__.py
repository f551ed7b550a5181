"""Numbered calls over one connection, for the clients of HBase and of BookKeeper."""

from hedwig.rpc.connection import Bounds, Call, Decoder, RpcConnection

__all__ = ["Bounds", "Call", "Decoder", "RpcConnection"]
