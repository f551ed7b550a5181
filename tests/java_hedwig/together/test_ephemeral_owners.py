"""Prove that our hub reports an original hub with ephemeral owner nodes by an error that says what to do."""

import pytest

from tests.java_hedwig.support.hub_client import HubClient, RefusedByHubError
from tests.java_hedwig.support.stack import REGION_PATH
from tests.java_hedwig.together.support.deployment import Deployment

__all__: list[str] = []


@pytest.fixture(scope="module")
def ephemeral(running: Deployment) -> Deployment:
    """The deployment, with the original hub in its default mode."""
    running.stop_both()
    running.ours.start()
    running.original.start(cas_owners=False)
    return running


@pytest.mark.parametrize("should_claim", [False, True])
def test_first_topic_met_is_refused_in_one_clear_line_and_not_taken_over(
    ephemeral: Deployment, topic: bytes, should_claim: bool
) -> None:
    topics = [topic + b"-a", topic + b"-b"]
    with (
        ephemeral.java.znodes() as raw,
        HubClient(ephemeral.original.port) as there,
        HubClient(ephemeral.ours.port) as us,
    ):
        us.should_claim = should_claim
        for name in topics:
            assert there.publish(name, b"m1") == 1
            path = f"{REGION_PATH}/topics/{name.decode()}/hub"
            before = raw.exists(path)
            assert before.ephemeralOwner
            for _ in range(2):
                with pytest.raises(RefusedByHubError) as refused:
                    us.publish(name, b"ours")
                text = refused.value.text
                assert "metadata_manager_based_topic_manager_enabled=true" in text
                assert name.decode() in text
                assert f"127.0.0.1:{ephemeral.original.port}" in text
                assert "\n" not in text
            after = raw.exists(path)
            assert (after.czxid, after.mzxid, after.ephemeralOwner) == (
                before.czxid,
                before.mzxid,
                before.ephemeralOwner,
            )
            assert there.publish(name, b"m2") == 2
    # The log has the error once, for the first such topic.
    (line,) = _errors(ephemeral)
    assert "metadata_manager_based_topic_manager_enabled=true" in line


def test_topic_stays_refused_while_the_node_of_a_dead_hub_is_there(ephemeral: Deployment, topic: bytes) -> None:
    """The session of the dead hub lasts for a while. After that the node is gone, and any hub may own the topic."""
    with HubClient(ephemeral.original.port) as there:
        there.subscribe(topic, b"reader")
        assert there.publish(topic, b"m1") == 1
    incarnation = ephemeral.registered(ephemeral.original)
    assert incarnation is not None
    ephemeral.original.kill()
    with HubClient(ephemeral.ours.port) as us:
        with pytest.raises(RefusedByHubError, match="metadata_manager_based_topic_manager_enabled"):
            us.publish(topic, b"m2")
        ephemeral.wait_gone(incarnation)
        assert us.publish(topic, b"m2") == 2
        us.subscribe(topic, b"reader")
        assert us.deliveries(2) == [(1, b"m1"), (2, b"m2")]


def _errors(deployment: Deployment) -> list[str]:
    return [line for line in deployment.ours.hub.log.splitlines() if " ERROR " in line and "ephemeral" in line]
