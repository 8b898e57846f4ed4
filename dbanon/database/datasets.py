"""What goes into datasets and out again: the verbs of `dbanon.database.Database` that load, generate, list and forget.

They translate the server's errors, and leave every decision to `load`, `synth` and the database.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon import load, releases
from dbanon.base.progress import Progress, reports
from dbanon.load import retention
from dbanon.options import generating, keywords, loading
from dbanon.postgres.connection import Connection, errors_translated

if TYPE_CHECKING:
    from dbanon.synth import SynthReport


class Datasets:
    """The verbs on datasets; `connection` and `progress` are those of the `Database`."""

    connection: Connection
    progress: Progress

    @reports
    @keywords(loading.LoadingTrajectories)
    def load_trajectories(
        self, files: str | Path | Sequence[str | Path], asked: loading.LoadingTrajectories
    ) -> load.LoadReport:
        """Load one fix a row from CSV (also gzipped) or Parquet files.

        Parameters
        ----------
        files : str, Path or sequence of them
            In the order that decides between contradicting fixes.

        Raises
        ------
        ParameterError
            For names, modes and reference systems that cannot be used, and for x and y that are exchanged.
        DataError
            If a file is no table or no row is usable; nothing is stored then.
        """
        several = [files] if isinstance(files, str | Path) else files
        return load.load_trajectories(self.connection, [Path(file) for file in several], asked, self.progress)

    @reports
    @keywords(loading.ImportingTrajectories)
    def import_trajectories(self, table: str, asked: loading.ImportingTrajectories) -> load.LoadReport:
        """Load one fix a row from a table or view of the same database.

        Parameters
        ----------
        table : str
            As in SQL, with its schema where the search path does not lead to it.

        Raises
        ------
        ParameterError, DataError
            As for `load_trajectories`, and for columns of the wrong type.
        StoreError
            If the login may not read the table.
        """
        return load.import_trajectories(self.connection, table, asked, self.progress)

    @reports
    @keywords(loading.LoadingRequests)
    def load_requests(self, file: str | Path, asked: loading.LoadingRequests) -> load.LoadReport:
        """Load the requests that subjects sent to a location-based service, one a row."""
        return load.load_requests(self.connection, Path(file), asked, self.progress)

    @reports
    @keywords(loading.LoadingQuasiIdentifiers)
    def load_quasi_identifiers(self, file: str | Path, asked: loading.LoadingQuasiIdentifiers) -> load.LoadReport:
        """Load times at which an adversary may know where a subject was, one a row."""
        return load.load_quasi_identifiers(self.connection, Path(file), asked, self.progress)

    @reports
    @keywords(loading.LoadingSites)
    def load_sites(self, file: str | Path, asked: loading.LoadingSites) -> load.LoadReport:
        """Load sensitive sites from a table, one a row, or from a geographic file, one a feature."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    @reports
    @keywords(loading.LoadingPois)
    def load_pois(self, file: str | Path, asked: loading.LoadingPois) -> load.LoadReport:
        """Load points of interest from a table, one a row, or from a geographic file, one a feature."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    @reports
    @keywords(loading.LoadingCells)
    def load_cells(self, file: str | Path, asked: loading.LoadingCells) -> load.LoadReport:
        """Load the areas that base stations cover, as they are, from a table or a geographic file."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    @reports
    @keywords(loading.LoadingStations)
    def load_stations(self, file: str | Path, asked: loading.LoadingStations) -> load.LoadReport:
        """Load base stations from a table or a geographic file, and make their cells."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    @reports
    @keywords(generating.Generating)
    def synth(self, dataset: str, asked: generating.Generating) -> "SynthReport":
        """Generate moving objects, their requests and, if asked for, places of their city into a dataset.

        Raises
        ------
        ParameterError
            If a number is out of its limits, or the dataset's name is taken and `mode` is ``create``.
        DataError
            If the files of the network cannot be used.
        """
        from dbanon import synth  # slow to import, and seldom needed

        with errors_translated():
            return synth.into_database(self.connection, dataset, asked, self.progress)

    def forget(self, dataset: str, subject: str, *, again: bool = False) -> tuple[dict[str, int], tuple[str, ...]]:
        """Delete a subject from a dataset; returns counts of what went, and notices of live releases with its data.

        Later loads leave the subject out, unless they may bring it `again`.
        """
        return releases.forget_subject(self.connection, dataset, subject, again=again)

    def remember(self, population: str, subject: str) -> bool:
        """Let loads bring a subject again who was forgotten; returns whether it was."""
        return releases.remember_subject(self.connection, population, subject)

    def datasets(self, name: str | None = None) -> list[dict[str, Any]]:
        """List the datasets, or the one of a name, each with how much is in it; reads all their trajectories."""
        return retention.list_datasets(self.connection, name)

    def drop_dataset(self, name: str) -> retention.Erased:
        """Delete a dataset that has no live release; returns counts of what went, and notices."""
        return retention.drop_dataset(self.connection, name)

    def drop_load(self, load_id: int) -> retention.Erased:
        """Take a load back by the `load_id` of its report; what it replaced does not come back."""
        return retention.drop_load(self.connection, load_id)

    def forget_before(self, dataset: str, before: datetime | str) -> retention.Erased:
        """Delete what a dataset has from before a time; returns counts of what went, and notices of live releases."""
        return retention.forget_before(self.connection, dataset, before)
