from __future__ import annotations

import subprocess
import sys

import pytest

from supervisors.unread import UNREAD, end_unread
from tests.timing import PATIENCE_S

_COMMAND = """
import sys
from supervisors.unread import end_unread

def run():
    sys.stderr.write(sys.stdin.readline())
    for _ in range(100_000):
        print("violet umbrella")
    return 3

sys.exit(end_unread(run))
"""


def test_the_code_of_a_command_is_its_own() -> None:
    assert end_unread(lambda: 7) == 7
    with pytest.raises(SystemExit):
        end_unread(lambda: sys.exit(2))


@pytest.mark.parametrize(("reads", "code"), [(True, 3), (False, UNREAD)])
def test_a_command_whose_reader_has_left_ends_with_that_code(reads: bool, code: int) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _COMMAND], stdin=pipe, stdout=pipe, stderr=pipe) as child:
        if not reads and child.stdout is not None:
            child.stdout.close()
            child.stdout = None
        _, said = child.communicate(b"begun\n", timeout=PATIENCE_S)
    assert (child.returncode, said) == (code, b"begun\n")
