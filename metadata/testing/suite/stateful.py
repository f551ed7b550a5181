"""Prove that any sequence of operations of two clients has the outcomes that a dict predicts."""

import asyncio
from contextlib import AsyncExitStack

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.model_machine import TwoClients
from hedwig.metadata.testing.place import Effort, Place


def test_two_clients_see_one_store(effort: Effort, place: Place) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        clients = Clients(stack)
        stores = runner.run(clients.open(place)), runner.run(clients.open(place))

        class OverThisPlace(TwoClients):
            def __init__(self) -> None:
                super().__init__(runner, stores)

        try:
            run_state_machine_as_test(
                OverThisPlace,
                settings=settings(
                    max_examples=effort.examples,
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())
