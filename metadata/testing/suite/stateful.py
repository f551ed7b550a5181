"""Prove that any sequence of operations of two clients has the outcomes that a dict predicts."""

import asyncio
from contextlib import AsyncExitStack

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.model_machine import TwoClients
from hedwig.metadata.testing.subject import Effort, Subject


def test_two_clients_see_one_store(effort: Effort, subject: Subject) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        clients = Clients(stack)
        stores = runner.run(clients.open(subject)), runner.run(clients.open(subject))

        class OverThisSubject(TwoClients):
            def __init__(self) -> None:
                super().__init__(runner, stores)

        try:
            run_state_machine_as_test(
                OverThisSubject,
                settings=settings(
                    max_examples=effort.examples,
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())
