"""Changes at random to what clients send."""

import random

__all__ = ["spoiled"]


def spoiled(source: random.Random, step: bytes, parts: list[bytes]) -> bytes:
    """Return a step of a login with up to two changes at random; some put in one of `parts`."""
    data = bytearray(step)
    for _ in range(source.randrange(3)):
        at = source.randrange(len(data) + 1)
        match source.randrange(3):
            case 0:
                data[at : at + source.randrange(4)] = source.choice(parts)
            case 1:
                del data[at : at + 1 + source.randrange(8)]
            case _:
                data[at:at] = source.randbytes(source.randrange(4))
    return bytes(data)
