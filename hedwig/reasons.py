"""Why a connection could not be made or was lost, in the words of the operating system."""

import os
import re
import socket
import ssl
from typing import Final

__all__ = ["reason_of"]

_NUMBERED: Final = re.compile(r"\[Errno (\d+)\]")


def reason_of(error: BaseException) -> str:
    """Return the reason of a connection error, such as `Connection refused`, without number or tuple; may be empty.

    asyncio puts the address into the text instead of the reason, and joins the texts of all addresses of a name.
    """
    if isinstance(error, socket.gaierror | ssl.SSLError) or not isinstance(error, OSError):
        return (error.strerror if isinstance(error, OSError) else None) or str(error)
    if error.errno is not None:
        return os.strerror(error.errno)
    numbers = dict.fromkeys(int(number) for number in _NUMBERED.findall(str(error)))
    return ", ".join(os.strerror(number) for number in numbers) or str(error)
