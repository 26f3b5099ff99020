from __future__ import annotations

from pathlib import Path

import pytest

from proxy.store.lock import Lock
from supervisors.errors import StoreError


def test_the_first_is_alone_and_so_is_the_next_one_after_the_last_has_left(tmp_path: Path) -> None:
    path = tmp_path / "j"
    first, second = Lock(path), Lock(path)
    assert (first.alone, second.alone) == (True, False)
    first.close()
    third = Lock(path)
    assert third.alone is False
    second.close()
    third.close()
    last = Lock(path)
    assert last.alone is True
    last.close()


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot open the journal .*: the folder .*none does not exist"):
        Lock(tmp_path / "none" / "j")
