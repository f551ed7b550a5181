"""Numbered calls over one connection, as the clients of HBase and of BookKeeper make them."""

from hedwig.rpc.connection import Bounds, Call, Decoder, RpcConnection

__all__ = ["Bounds", "Call", "Decoder", "RpcConnection"]
