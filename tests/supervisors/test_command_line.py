"""What a command line that cannot be is answered with: one line, and where the options are listed."""

from __future__ import annotations

import pytest

from supervisors.command_line import CommandParser


def parser() -> CommandParser:
    made = CommandParser(prog="prog")
    made.add_argument("--port", type=int)
    verbs = made.add_subparsers(required=True, metavar="VERB")
    serve = verbs.add_parser("serve")
    serve.add_argument("--level", choices=["DEBUG", "INFO"])
    serve.add_argument("--number", type=int, choices=range(8, 21))
    serve.add_argument("names", nargs="*")
    return made


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--prt=1", "serve"], "prog: error: unrecognized arguments: --prt=1; did you mean '--port'?"),
        (["serve", "--lvl", "INFO"], "prog serve: error: unrecognized arguments: --lvl; did you mean '--level'?"),
        (["serve", "--zz"], "prog serve: error: unrecognized arguments: --zz\n"),
        (["serve", "-z"], "prog serve: error: unrecognized arguments: -z\n"),
        (["serve", "--level", "INOF"], "(choose from 'DEBUG', 'INFO'); did you mean 'INFO'?\n"),
        (["serve", "--number", "7"], "invalid choice: 7 (choose from 8, 9, 10"),
        (["sevre"], "prog: error: argument VERB: invalid choice: 'sevre' (choose from 'serve'); did you mean 'serve'?"),
        ([], "prog: error: the following arguments are required: VERB\n"),
        (["--port", "x", "serve"], "prog: error: argument --port: invalid int value: 'x'\n"),
    ],
)
def test_an_error_is_one_line_with_the_nearest_and_one_with_the_way_to_help(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(args)
    told = capsys.readouterr().err
    assert said in told
    first, second = told.splitlines()
    assert second == f"{first.partition(':')[0]} --help says how it is used"


def test_what_is_right_is_parsed_as_ever() -> None:
    args = parser().parse_args(["--port", "3", "serve", "a", "--level", "INFO", "b", "--number", "8"][:6])
    assert (args.port, args.level, args.names) == (3, "INFO", ["a"])
