"""The program of docs/reference/bookkeeper.md does what the page says."""

import re
from typing import Any

from tests.support.checkout import CHECKOUT
from tests.support.servers import RunningServers

PAGE = CHECKOUT / "docs" / "reference" / "bookkeeper.md"


async def test_the_program_of_the_page_writes_and_reads(servers: RunningServers) -> None:
    servers.address("bookkeeper")
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, str(PAGE), "exec"), names)
    assert await names["hello"](servers.address("zookeeper")) == [b"rain"]
