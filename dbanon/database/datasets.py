"""What goes into datasets and out again: the verbs of `dbanon.database.Database` that load, generate, list and forget.

They translate the server's errors, and leave every decision to `load`, `synth` and the database.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from dbanon import load, releases
from dbanon.base.extras import needs
from dbanon.base.progress import Progress, finish_progress
from dbanon.load import retention
from dbanon.options import accept_options, generating, loading
from dbanon.postgres.connection import Connection, translate_errors

if TYPE_CHECKING:
    from dbanon.synth import SynthReport


class Datasets:
    """The verbs on datasets; `connection` and `progress` are those of the `Database`."""

    connection: Connection
    progress: Progress

    @finish_progress
    @accept_options(loading.LoadingTrajectories)
    def load_trajectories(
        self, source: load.Table | Sequence[load.Table], options: loading.LoadingTrajectories
    ) -> load.LoadReport:
        """Load fixes from files, or from tables in memory.

        Parameters
        ----------
        source : path, table or sequence of them
            Files: CSV (also gzipped), Parquet, GPX, PLT, MF-JSON, or a folder of GPX and PLT. Tables: what has
            ``__arrow_c_stream__``, such as frames of pandas, polars and GeoPandas, relations of DuckDB and tables of
            pyarrow. In the order that decides between contradicting fixes.

        Raises
        ------
        ParameterError
            For names, modes and reference systems that cannot be used, and for x and y that are exchanged.
        DataError
            If a file is no table or no row is usable; nothing is stored then.
        """
        # A table may be a sequence of columns as well.
        is_alone = isinstance(source, str) or not isinstance(source, Sequence) or hasattr(source, "__arrow_c_stream__")
        several = [cast("load.Table", source)] if is_alone else cast("Sequence[load.Table]", source)
        return load.load_trajectories(self.connection, several, options, self.progress)

    @finish_progress
    @accept_options(loading.ImportingTrajectories)
    def import_trajectories(self, table: str, options: loading.ImportingTrajectories) -> load.LoadReport:
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
        return load.import_trajectories(self.connection, table, options, self.progress)

    @finish_progress
    @accept_options(loading.LoadingRequests)
    def load_requests(self, source: load.Table, options: loading.LoadingRequests) -> load.LoadReport:
        """Load the requests that people sent to a location-based service, one a row."""
        return load.load_requests(self.connection, source, options, self.progress)

    @finish_progress
    @accept_options(loading.LoadingQuasiIdentifiers)
    def load_quasi_identifiers(self, source: load.Table, options: loading.LoadingQuasiIdentifiers) -> load.LoadReport:
        """Load times at which an adversary may know where a person was, one a row."""
        return load.load_quasi_identifiers(self.connection, source, options, self.progress)

    @finish_progress
    @accept_options(loading.LoadingSites)
    def load_sites(self, source: load.Table, options: loading.LoadingSites) -> load.LoadReport:
        """Load sensitive sites from a table, one a row, or from a geographic file, one a feature."""
        return load.load_places(self.connection, source, options, self.progress)

    @finish_progress
    @accept_options(loading.LoadingPois)
    def load_pois(self, source: load.Table, options: loading.LoadingPois) -> load.LoadReport:
        """Load points of interest from a table, one a row, or from a geographic file, one a feature."""
        return load.load_places(self.connection, source, options, self.progress)

    @finish_progress
    @accept_options(loading.LoadingCells)
    def load_cells(self, source: load.Table, options: loading.LoadingCells) -> load.LoadReport:
        """Load the areas that base stations cover, as they are, from a table or a geographic file."""
        return load.load_places(self.connection, source, options, self.progress)

    @finish_progress
    @accept_options(loading.LoadingStations)
    def load_stations(self, source: load.Table, options: loading.LoadingStations) -> load.LoadReport:
        """Load base stations from a table or a geographic file, and make their cells."""
        return load.load_places(self.connection, source, options, self.progress)

    @needs("files", "compute")
    @finish_progress
    @accept_options(generating.Generating)
    def synth(self, dataset: str, options: generating.Generating) -> "SynthReport":
        """Generate people and vehicles, their requests and, if asked for, places of their city into a dataset.

        Raises
        ------
        ParameterError
            If a number is out of its limits, or the dataset's name is taken and `mode` is ``create``.
        DataError
            If the files of the network cannot be used.
        """
        from dbanon import synth  # slow to import, and seldom needed

        with translate_errors():
            return synth.fill_dataset(self.connection, dataset, options, self.progress)

    def forget(self, dataset: str, subject: str, *, again: bool = False) -> tuple[dict[str, int], tuple[str, ...]]:
        """Erase a person from a dataset. Returns counts of deleted rows, and notices of live releases with the data.

        Later loads leave the subject out, unless they may bring it `again`.
        """
        return releases.forget_subject(self.connection, dataset, subject, again=again)

    def remember(self, population: str, subject: str) -> bool:
        """Let loads bring a forgotten person again. Returns whether the person had been forgotten."""
        return releases.remember_subject(self.connection, population, subject)

    def datasets(self, name: str | None = None) -> list[dict[str, Any]]:
        """List the datasets, or the one of a name, with counts of their contents. It reads all their trajectories."""
        return retention.list_datasets(self.connection, name)

    def drop_dataset(self, name: str) -> retention.Erased:
        """Delete a dataset that has no live release. Returns counts of deleted rows, and notices."""
        return retention.drop_dataset(self.connection, name)

    def drop_load(self, load_id: int) -> retention.Erased:
        """Take a load back by the `load_id` of its report. The rows that it replaced do not come back."""
        return retention.drop_load(self.connection, load_id)

    def forget_before(self, dataset: str, before: datetime | str) -> retention.Erased:
        """Delete the data of a dataset from before a time. Returns counts of deleted rows, and notices."""
        return retention.forget_before(self.connection, dataset, before)
