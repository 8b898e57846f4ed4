"""What goes into datasets and out again: the verbs of `dbanon.database.Database` that load, generate, list and forget.

They translate the server's errors, and leave every decision to `load`, `synth` and the database.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon import load, releases
from dbanon.base.progress import Progress, silent
from dbanon.load import retention
from dbanon.options import keywords, loading
from dbanon.postgres.connection import Connection, errors_translated

if TYPE_CHECKING:
    from dbanon.synth import SynthReport


class Datasets:
    """The verbs on datasets; `connection` and `progress` are those of the `Database`."""

    connection: Connection
    progress: Progress

    @keywords(loading.LoadingTrajectories)
    def load_trajectories(self, files: Sequence[str | Path], asked: loading.LoadingTrajectories) -> load.LoadReport:
        """Load one fix a row from CSV (also gzipped) or Parquet files.

        Parameters
        ----------
        files : sequence of str or Path
            In the order that decides between contradicting fixes.

        Raises
        ------
        ParameterError
            For names, modes and reference systems that cannot be used, and for x and y that are exchanged.
        DataError
            If a file is no table or no row is usable; nothing is stored then.
        """
        return load.load_trajectories(self.connection, [Path(file) for file in files], asked, self.progress)

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

    @keywords(loading.LoadingRequests)
    def load_requests(self, file: str | Path, asked: loading.LoadingRequests) -> load.LoadReport:
        """Load the requests that subjects sent to a location-based service, one a row."""
        return load.load_requests(self.connection, Path(file), asked, self.progress)

    @keywords(loading.LoadingQuasiIdentifiers)
    def load_quasi_identifiers(self, file: str | Path, asked: loading.LoadingQuasiIdentifiers) -> load.LoadReport:
        """Load times at which an adversary may know where a subject was, one a row."""
        return load.load_quasi_identifiers(self.connection, Path(file), asked, self.progress)

    @keywords(loading.LoadingSites)
    def load_sites(self, file: str | Path, asked: loading.LoadingSites) -> load.LoadReport:
        """Load sensitive sites from a table, one a row, or from a geographic file, one a feature."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    @keywords(loading.LoadingPois)
    def load_pois(self, file: str | Path, asked: loading.LoadingPois) -> load.LoadReport:
        """Load points of interest from a table, one a row, or from a geographic file, one a feature."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    @keywords(loading.LoadingCells)
    def load_cells(self, file: str | Path, asked: loading.LoadingCells) -> load.LoadReport:
        """Load the areas that base stations cover, as they are, from a table or a geographic file."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    @keywords(loading.LoadingStations)
    def load_stations(self, file: str | Path, asked: loading.LoadingStations) -> load.LoadReport:
        """Load base stations from a table or a geographic file, and make their cells."""
        return load.load_places(self.connection, Path(file), asked, self.progress)

    def synth(
        self,
        dataset: str,
        *,
        objects: int = 1000,
        instants: int = 30,
        step_s: int = 60,
        start: str | int = "2026-01-05T08:00:00Z",
        seed: int = 1,
        whole_share: float = 0.8,
        requests_per_subject: float = 2.0,
        calls_per_day: float | None = None,
        quasi_identifiers: str | None = None,
        quasi_identifier_size: int = 10,
        quasi_identifier_overlap: int = 1,
        pois: int = 0,
        stations: int = 0,
        destinations: int = 1000,
        blocks: int = 16,
        nodes: Path | None = None,
        edges: Path | None = None,
        srid: int | None = None,
        lon: float | None = None,
        lat: float | None = None,
        limits_kmh: Mapping[int, float] | None = None,
        grid_m: float = 1.0,
        grid_s: int = 1,
        mode: loading.Mode = "create",
        population: str | None = None,
        settle_s: int | None = None,
        progress: Progress = silent,
    ) -> "SynthReport":
        """Generate moving objects, their requests and, if asked for, places of their city into a dataset.

        Parameters
        ----------
        dataset : str
        objects, instants, step_s, seed, whole_share, requests_per_subject, calls_per_day, destinations, blocks, \
        quasi_identifiers, quasi_identifier_size, quasi_identifier_overlap, pois, stations
            As for `dbanon.synth.Plan`.
        start : str or int
            First position: ISO 8601 with a zone, or unix seconds.
        nodes, edges, srid, lon, lat, limits_kmh
            Another network than the built-in city, as for `dbanon.synth.Plan`.
        grid_m, grid_s, mode, population, settle_s
            As for `load_trajectories`.
        progress : callable, optional

        Raises
        ------
        ParameterError
            If a number is out of its limits, or the dataset's name is taken and `mode` is ``create``.
        DataError
            If the files of the network cannot be used.
        """
        from dbanon import synth  # slow to import, and seldom needed

        plan = synth.Plan(
            objects=objects, instants=instants, step_s=step_s, start_s=synth.start_seconds(start), seed=seed,
            whole_share=whole_share, requests_per_subject=requests_per_subject, calls_per_day=calls_per_day,
            quasi_identifiers=quasi_identifiers, quasi_identifier_size=quasi_identifier_size,
            quasi_identifier_overlap=quasi_identifier_overlap, pois=pois, stations=stations, destinations=destinations,
            blocks=blocks, nodes=nodes, edges=edges, srid=srid, lon=lon, lat=lat, limits_kmh=limits_kmh,
        )  # fmt: skip
        with errors_translated():
            return synth.into_database(
                self.connection, plan, dataset=dataset, grid_m=grid_m, grid_s=grid_s, mode=mode,
                people=loading.People(population=population, settle_s=settle_s), progress=progress,
            )  # fmt: skip

    def forget(self, dataset: str, subject: str) -> tuple[dict[str, int], tuple[str, ...]]:
        """Delete a subject from a dataset; returns counts of what went, and notices of live releases with its data."""
        return releases.forget_subject(self.connection, dataset, subject)

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
