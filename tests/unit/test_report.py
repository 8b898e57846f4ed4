"""What people are shown, without a database."""

import io

from dbanon.report import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_takes_no_file_name_for_markup() -> None:
    terminal = Terminal()
    with Progress(terminal) as progress:
        progress("reading [red]x[/foo].csv", 0, None)
        progress("reading [b]y", 1, 2)
    assert "[red]x[/foo].csv" in terminal.getvalue()
    assert "[b]y" in terminal.getvalue()
