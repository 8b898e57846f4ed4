"""What people are shown, without a database."""

import io

from dbanon.report import Progress, table, visible


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


def test_progress_shows_what_a_terminal_would_obey() -> None:
    for stream in (Terminal(), io.StringIO()):
        with Progress(stream) as progress:
            progress("reading a\x1b]0;b\x07\n.csv", 1, 2)
        assert r"reading a\x1b]0;b\x07\n.csv" in stream.getvalue()


def test_a_table_has_a_line_for_each_row_whatever_the_names_hold() -> None:
    assert table(["a\nb"], [["c\r\nd\x1b[2J"], ["\u202e\x9b\udcff"]]).splitlines() == [
        r"a\nb",
        "-" * 16,
        r"c\r\nd\x1b[2J",
        r"\u202e\x9b\udcff",
    ]


def test_what_has_a_picture_is_shown_as_it_is() -> None:
    text = "été 東京 🚕 \\x1b"
    assert visible(text) == text
    assert visible(f"{text}\n\t", lines=True) == f"{text}\n\\t"
