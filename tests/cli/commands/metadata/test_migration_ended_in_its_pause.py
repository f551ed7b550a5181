"""Prove that hubs continue however a migration ends in its pause, and that it never reports success wrongly."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hedwig.errors import ServiceError
from hedwig.exit_codes import ExitCode
from hedwig.metadata.migration.run import RECORD_NAME
from tests.cli.support.admin import DEADLINE_S, Admin, wait_until
from tests.cli.support.held_admin import HeldAdmin
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.store_contents import contents, fill
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import HubNotServingError, RunningHub

__all__: list[str] = []

REPLACE: Final = ("--replace-standalone",)

_TOPICS: Final = 40
_REFUSED: Final = "frozen|did not answer"
"""The last attempt may be under way when the time of a publish is over."""


class Moving:
    """A hub, and the command that migrates its metadata, which stays in its pause while `held` holds the answer."""

    def __init__(self, running: HubAndAdmin, held: HeldAdmin, directory: Path) -> None:
        self.running = running
        self.held = held
        self.target = Admin(directory, f"sqlite://{directory}/target.db")
        self.target.done("metadata", "format")
        fill(running.admin.url, _TOPICS)

    def command(self, admin: str) -> tuple[str, ...]:
        move = ("metadata", "migrate", "--from", self.running.admin.url, "--to", self.target.url)
        return (*move, "--hub-admin", admin, "--yes", "-o", "json")

    @property
    def is_frozen(self) -> bool:
        return bool(AdminClient(self.running.hub.admin).get("/freeze")["frozen"])

    def start_and_wait_for_the_pause(self) -> "subprocess.Popen[bytes]":
        process = self.target.start(*self.command(self.held.address))
        assert self.held.is_held.wait(DEADLINE_S)
        assert self.is_frozen
        with pytest.raises(ServiceError, match=_REFUSED):
            self.running.publish("refused", b"body", answer_timeout_s=2.0)
        return process

    def end_well(self) -> None:
        """Run the command again, and check that it finishes."""
        assert self.target.done(*self.command(self.running.hub.admin)).json["verified"]
        assert contents(self.target.url) == contents(self.running.admin.url, owners=False)
        assert self.is_frozen


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Moving]:
    with HubAndAdmin(tmp_path) as running, HeldAdmin(running.hub.admin) as held:
        yield Moving(running, held, tmp_path)


def test_hubs_go_on_after_a_migration_that_was_killed(moving: Moving) -> None:
    process = moving.start_and_wait_for_the_pause()
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    hindrances = AdminClient(moving.running.hub.admin).get("/health")["hindrances"]
    assert any(moving.target.url in said for said in hindrances), "an operator sees it"
    wait_until(lambda: not moving.is_frozen, "the hub goes on by itself")
    moving.running.publish("after-the-kill", b"body")
    moving.end_well()
    assert ("persistence", b"after-the-kill", None) in contents(moving.target.url)


def test_hubs_go_on_at_once_after_an_interrupt(moving: Moving) -> None:
    process = moving.start_and_wait_for_the_pause()
    process.send_signal(signal.SIGINT)
    moving.held.release()
    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == ExitCode.INTERRUPTED, said
    assert not moving.is_frozen
    moving.running.publish("after-the-interrupt", b"body")
    moving.end_well()


def test_migration_that_slept_too_long_takes_nothing_for_moved(moving: Moving) -> None:
    """A migration that wakes after the freeze was lifted must not end as if no hub had written since."""
    process = moving.start_and_wait_for_the_pause()
    process.send_signal(signal.SIGSTOP)
    try:
        # A hub that starts during the pause is frozen at once.
        moving.running.hub.kill()
        moving.running.start()
        assert moving.is_frozen
        with pytest.raises(ServiceError, match=_REFUSED):
            moving.running.publish("refused", b"body", answer_timeout_s=2.0)
        wait_until(lambda: not moving.is_frozen, "the hub goes on by itself")
        moving.running.publish("while-it-slept", b"body")
        moving.held.release()
    finally:
        process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == ExitCode.FAILED, said
    assert b"another process lifted the freeze" in said
    assert not moving.is_frozen
    moving.end_well()
    assert ("persistence", b"while-it-slept", None) in contents(moving.target.url)


def test_migration_that_lacks_only_its_last_note_is_ended_by_the_same_command(moving: Moving) -> None:
    """Killed after the source was left for good. Hubs may use the target already, so nothing is copied again."""
    moving.end_well()
    moving.running.hub.stop()
    ((done,),) = moving.target.query("SELECT value FROM named_records WHERE name = ?", RECORD_NAME)
    unfinished = done.replace(b"\xa4done", b"\xa8catch-up")
    assert unfinished != done
    moving.target.query("UPDATE named_records SET value = ? WHERE name = ?", unfinished, RECORD_NAME)
    fill(moving.target.url, 5, first=10_000)
    before = contents(moving.target.url)
    # Until then hubs cannot tell this store from a half-filled one.
    hub = RunningHub(moving.target.directory / "early", f"metadata={moving.target.url}", arguments=REPLACE)
    with pytest.raises(HubNotServingError) as refused:
        hub.start()
    assert "metadata migrate" in str(refused.value)
    move = ("metadata", "migrate", "--from", moving.running.admin.url, "--to", moving.target.url, "--yes")
    report = moving.target.done(*move, "-o", "json").json
    assert (report["verified"], report["caught_up"], report["changed_in_pause"]) == (True, 0, 0)
    assert contents(moving.target.url) == before
    with hub:
        assert AdminClient(hub.admin).get("/ready")["ready"]
