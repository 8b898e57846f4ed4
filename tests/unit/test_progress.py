"""Progress shows itself where people look, and nowhere else."""

import builtins
import io
import sys
from types import ModuleType

import pytest

from dbanon.base import progress
from dbanon.base.progress import Display, Progress, finish_progress, report_nothing


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Verbs:
    """What has a verb that takes long."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    @finish_progress
    def work(self, stages: int, *, fail: bool = False) -> int:
        for done in range(stages):
            self.progress("working", done, stages)
        if fail:
            raise ValueError
        return stages


def read_shown(stream: io.StringIO, **options: bool) -> str:
    Verbs(Display(stream, **options)).work(3)
    return stream.getvalue()


@pytest.mark.parametrize("stream", [None, object()])
def test_it_is_nothing_where_there_is_no_console(monkeypatch: pytest.MonkeyPatch, stream: object) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    assert Verbs(Display()).work(3) == 3


def test_a_bar_leaves_what_the_program_prints_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    with Display(terminal) as display:
        display("working", 0, None)
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.getvalue()


def test_it_is_a_bar_on_a_terminal() -> None:
    assert "working" in read_shown(Terminal())


def test_it_is_nothing_elsewhere_unless_lines_are_asked_for() -> None:
    assert read_shown(io.StringIO()) == ""
    assert read_shown(io.StringIO(), writes_lines=True) == "working ...\n"


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setattr(builtins, "get_ipython", type("ZMQInteractiveShell", (), {}), raising=False)


@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize("drawn_with", ["ipywidgets", None])
def test_in_a_notebook_it_is_a_bar_or_lines_where_there_can_be_none(
    monkeypatch: pytest.MonkeyPatch, drawn_with: str | None
) -> None:
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: name if name == drawn_with else None)
    drawn: list[str] = []
    monkeypatch.setattr(Display, "_draw", lambda display, stream, stage, done, total: drawn.append(stage))
    assert read_shown(io.StringIO()) == ("" if drawn_with else "working ...\n")
    assert drawn == ["working"] * (3 if drawn_with else 0)


def test_a_program_without_notebooks_imports_nothing_of_them() -> None:
    assert "IPython" not in sys.modules
    assert not progress._is_in_notebook()


@pytest.mark.parametrize("fail", [False, True])
def test_the_bar_goes_when_a_verb_ends_and_the_next_one_has_another(fail: bool) -> None:
    terminal = Terminal()
    verbs = Verbs(Display(terminal))
    for _ in range(2):
        before = len(terminal.getvalue())
        try:
            assert verbs.work(2, fail=fail) == 2
        except ValueError:
            assert fail
        assert "working" in terminal.getvalue()[before:]
        assert verbs.progress._bar is None  # type: ignore[attr-defined]


def test_any_function_can_stand_for_it() -> None:
    told: list[tuple[str, int, int | None]] = []
    assert Verbs(lambda *stage: told.append(stage)).work(2) == 2
    assert told == [("working", 0, 2), ("working", 1, 2)]
    assert Verbs(report_nothing).work(2) == 2


def test_on_a_terminal_it_takes_no_file_name_for_markup() -> None:
    terminal = Terminal()
    with Display(terminal) as display:
        display("reading [red]x[/foo].csv", 0, None)
        display("reading [b]y", 1, 2)
    assert "[red]x[/foo].csv" in terminal.getvalue()
    assert "[b]y" in terminal.getvalue()


def test_it_shows_what_a_terminal_would_obey() -> None:
    for stream in (Terminal(), io.StringIO()):
        with Display(stream, writes_lines=True) as display:
            display("reading a\x1b]0;b\x07\n.csv", 1, 2)
        assert r"reading a\x1b]0;b\x07\n.csv" in stream.getvalue()


def test_lines_need_a_console(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    Verbs(Display(writes_lines=True)).work(3)
    assert capsys.readouterr().out == ""
