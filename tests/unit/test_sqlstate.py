"""SQL in what the server says, as the command line writes it."""

import pytest

from dbanon._sqlstate import for_command_line


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Cancel it first: SELECT dbanon.cancel_run(7).", "Cancel it first: `dbanon cancel 7`."),
        ("List the runs: SELECT * FROM dbanon.runs.", "List the runs: `dbanon runs`."),
        ("See it: SELECT * FROM dbanon.runs WHERE run_id = 7.", "See it: `dbanon runs`."),
        ("Withdraw it: SELECT dbanon.unpublish('cabs').", "Withdraw it: `dbanon unpublish cabs`."),
        ("Start another run: CALL dbanon.anonymize(...).", "Start another run: `dbanon run`."),
        (
            "Load it again: SELECT * FROM dbanon.import_trajectories(..., mode => 'replace').",
            "Load it again: `dbanon load trajectories --replace`.",
        ),
        ("Name them: columns => ARRAY['poi', 'radius'].", "Name them: --columns poi,radius."),
        ("Or allow_overlap => true with reason => '...'.", "Or --allow-overlap with --reason."),
        (
            "End them: SELECT dbanon.unpublish('cabs', end_readers => true).",
            "End them: `dbanon unpublish cabs --end-readers`.",
        ),
        (
            "SELECT dbanon.publish(7, 'cabs', replace => true, allow_overlap => true, "
            "reason => 'read by Ann''s group (two), no others', end_readers => true).",
            "`dbanon publish 7 cabs --replace --allow-overlap "
            """--reason 'read by Ann'"'"'s group (two), no others' --end-readers`.""",
        ),
        ("Read it: SELECT * FROM dbanon.audit.", "Read it: SELECT * FROM dbanon.audit."),
    ],
)
def test_sql_is_written_as_the_command_line_does(said: str, written: str) -> None:
    assert for_command_line(said) == written
