"""Why rows are left out of loads and runs, in words; and what the made parts of the reference begin with.

A test holds the reasons against those that the SQL of loads gives.
"""

QUARANTINED = {
    "missing-category": "a point of interest has no category",
    "missing-subject": "the row names no person. The words of `--null`, such as `NA`, name none",
    "subject-too-long": "the name of the person has more than 1,000 bytes",
    "control-characters": "a name of a person, trip, site, cell or category has a character that a terminal obeys "
    "(U+0001 to U+001F, U+007F to U+009F) between its other letters",
    "unparsable-time": "the time is no number and no ISO 8601, or clocks in the zone of `--tz` never showed it",
    "non-finite-time": "the time is NaN or infinite",
    "time-out-of-range": "the time is before the year 1 or after 5138. Often it is a number in another unit than the "
    "rest of the file",
    "future-time": "the time is more than an hour after the server's clock, or was when an earlier load read the row. "
    "Not with `--allow-future`",
    "other-reference-system": "the point is in another coordinate system than the first of its table",
    "missing-position": "a coordinate or the geometry is NULL or empty",
    "unparsable-position": "a coordinate is no number, or the geometry is WKT that cannot be read (curves cannot). "
    "Or a point of interest is a curve or a collection",
    "not-a-polygon": "the cell is neither a polygon nor a multipolygon",
    "non-finite-position": "a coordinate is NaN or infinite",
    "swapped-axes": "the coordinates are the wrong way round in this row, as the other rows show (of a site: as the "
    "trajectories show). If most rows are, the load is refused and says which columns to swap",
    "position-out-of-range": "the degrees do not exist, or the coordinate system of the dataset cannot show the place",
    "invalid-polygon": "the cell crosses itself or covers nothing, in the coordinate system of the dataset",
    "outside-bbox": "the position, or the middle of the shape, is outside `--bbox`",
    "far-position": "the position is farther from the central 96 % of all places than three times their width (for a "
    "site: than three times the width of the trajectories). Only with `--drop-outliers`",
    "too-fast": "the person would have moved faster than `--max-speed-kmh` since the fix before. Only with "
    "`--drop-outliers`",
    "far-time": "the time is farther from the central 96 % of all times than three times their span, as after a jump "
    "of the clock. Only with `--drop-outliers`",
    "duplicate-fix": "the source or the dataset has the same person, time and place already",
    "contradicting-fix": "the source or the dataset has the same person at the same time in another place or shape. "
    "That of the dataset is kept, and otherwise the first in the order of the files",
    "empty-request": "the request has no content",
    "duplicate-request": "the dataset has a request of the same sender, time and content already",
    "duplicate-site": "the dataset or the file has a site of the same name, or without one, and of the same bounds to "
    "the millimetre already",
    "duplicate-poi": "the dataset or the table has a point of interest of the same category at the same place, to the "
    "millimetre, already",
    "duplicate-cell": "the dataset or the table has a cell of the same name, or without one, and the same area to the "
    "millimetre already",
    "duplicate-quasi-identifier": "the set or the source has this time for the same person already",
    "duplicate-station": "another station stands at the same place, to the millimetre. The two share a cell",
    "outside-area": "no place of `--area` is nearest to the station",
}
COUNTED = {
    "known": "the dataset has the row already. Only with `--new`",
    "late": "the row is new and of a time that a release covers. Only with `--new`",
    "no-time": "the row has no readable time. Only with `--new`",
    "outside-period": "the time is outside `--since` and `--until`",
    "forgotten": "the person was forgotten in the population",
    "forgotten-time": "the time is before the time up to which data of the dataset were forgotten",
    "read-again": "the row was in quarantine until a later load with `--new` read it again",
}

HEAD = """
These rows are in `dbanon.quarantine`, each with its reason, its line and its cells as they were read. The header of a
file is line 1, blank lines do not count, and of each cell the first 1,000 characters are kept. [Load
data](../administrators/load.md) shows how to list them.
"""
COUNTED_HEAD = """
These rows are counted in `left_out` of `dbanon.load`, and on the command line in `left out`. No copy of them is kept,
because the source still has them, or because they must not be stored.
"""
RUN_HEAD = """
The column `suppressed` of `dbanon.run` and the card of a release count them by these reasons.
"""
SETTINGS_HEAD = """
A login, a database or a server may have settings of its own (`ALTER ROLE ... SET`, `postgresql.conf`). The
connections of dbanon use these instead, because others would change a result or end a statement. To keep a server from
being written to, use a standby or take the rights: `default_transaction_read_only` does not do it. `dbanon import`
looks up the tables that you name along the search path of the login. `dbanon db psql` changes no setting.
"""
VITALS_HEAD = """
`dbanon worker --listen` shows them at `/metrics`, in the text format of Prometheus. They count processes and runs,
never rows or people. An unknown figure has no line. [Watch a worker](../administrators/operate.md#watch-a-worker)
says how to ask for them.
"""
