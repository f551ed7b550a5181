"""Prove that only its owner can read the embedded store, whatever the umask."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support.admin import Admin


@pytest.fixture(autouse=True)
def without_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _open_to_others(path: Path) -> int:
    return path.stat().st_mode & 0o077


def test_the_embedded_store_is_its_owners(tmp_path: Path) -> None:
    admin = Admin(tmp_path, "")
    admin.done("topic", "create", "news")
    directory = tmp_path / "data" / "hedwig"
    assert sorted(path.name for path in directory.iterdir())[0] == "metadata.db"
    assert not any(map(_open_to_others, (directory, *directory.iterdir())))


def test_the_embedded_store_of_a_former_release_is_closed_to_others(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "hedwig"
    directory.mkdir(parents=True, mode=0o755)
    Admin(tmp_path, "").done("topic", "create", "news")
    assert not _open_to_others(directory)
    assert _open_to_others(directory.parent)


def test_a_store_that_a_url_names_is_made_for_its_owner_and_keeps_the_mode_that_it_is_given(tmp_path: Path) -> None:
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/store.db")
    admin.done("topic", "create", "news")
    assert not _open_to_others(tmp_path / "store.db")
    (tmp_path / "store.db").chmod(0o664)
    admin.done("topic", "create", "more")
    assert (tmp_path / "store.db").stat().st_mode & 0o777 == 0o664
