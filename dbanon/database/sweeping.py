"""Sweeps: compute and attack every combination of some values of parameters, and ask all of them the same questions.

A sweep publishes nothing. It finds the settings again that were measured at this revision of the dataset, so an
interrupted sweep goes on where it was. Invariant: a sweep's runs and samples are deleted when its session ends.
"""

import importlib.metadata
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dbanon import methods
from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import (
    DataError,
    DbanonError,
    InfeasibleError,
    ParameterError,
    StoreError,
    choose_one,
    format_count,
)
from dbanon.base.progress import Progress
from dbanon.evaluation import evaluating, evaluation_store, sample_map, settings, sweep_session
from dbanon.metrics import METRICS
from dbanon.options.evaluating import Evaluating
from dbanon.options.publishing import Planning, Submitting
from dbanon.options.sweeping import Sweeping
from dbanon.postgres.connection import Connection, make_jsonb, translate_errors
from dbanon.results.figures import Evaluation
from dbanon.results.sweep import Minute, Setting, Sweep, Want
from dbanon.runs import queue, stored
from dbanon.runs.stored import RunResult

if TYPE_CHECKING:
    from dbanon.database import Database

_IMPOSSIBLE_ERRORS = (InfeasibleError, ParameterError, DataError)
_FEW_PEOPLE, _MANY_PEOPLE = 1000, 50_000  # of those that a plan is measured with, an eighth of all
_EACH = {"seconds_each": "seconds", "mb_each": "memory_mb"}


@dataclass(frozen=True, kw_only=True)
class _Combination:
    """The parameters of one setting, and the key under which its figures are kept."""

    params: Mapping[str, Any]
    varied: Mapping[str, Any]
    promise: Mapping[str, Any]
    strength: tuple[float, ...]
    key: evaluation_store.Key

    @property
    def name(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in (self.varied or self.params).items())


@dataclass(kw_only=True)
class _Clock:
    """Shows progress under the name of the setting, and estimates the time left from the settings before."""

    total: int
    progress: Progress
    spent: list[float] = field(default_factory=list)
    label: str = ""

    @contextmanager
    def measure_time(self, place: int, left: int, name: str) -> Iterator[None]:
        """Announce a setting, and keep the time that it takes."""
        self.label = f"setting {place} of {self.total} ({name}){self._estimate(left)}"
        self.progress(self.label, 0, None)
        began = time.perf_counter()
        yield
        self.spent.append(time.perf_counter() - began)

    def _estimate(self, left: int) -> str:
        if not self.spent:
            return ""
        seconds = sum(self.spent) / len(self.spent) * left
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        self.progress(f"{self.label}: {stage}", done, total)


def sweep_settings(database: "Database", method: str, options: Sweeping) -> Sweep:
    """Measure all settings; see `dbanon.database.Database.sweep`."""
    family = methods.find_method(method)
    algorithm = family.find_algorithm(options.algorithm).name
    connection = database.connection
    dataset = stored.find_dataset(connection, options.dataset)
    _demand_allowed(connection, options)
    combinations = _list_combinations(connection, family, algorithm, dataset, options)
    tried = _find_measured(connection, combinations, options)
    _demand_known(options.wants, tried.values())
    missing = {place: one for place, one in enumerate(combinations) if place not in tried}
    if missing:
        with (
            sweep_session.open_session(database.lock_url, database.target.url) as lock_key,
            _show_progress(database, len(combinations)) as clock,
        ):
            work = _Work(database, family, algorithm, options, lock_key)
            for nth, (place, one) in enumerate(missing.items()):
                with clock.measure_time(place + 1, len(missing) - nth, one.name):
                    tried[place] = replace(_make_setting(one, work.measure(one), is_earlier=False), minute=work.minute)
                _demand_known(options.wants, tried.values())
    marked = settings.judge((tried[place] for place in range(len(combinations))), options.wants)
    made = Sweep(
        dataset=options.dataset,
        method=method,
        algorithm=algorithm,
        people=options.sample or stored.count_subjects(connection, dataset.dataset_id),
        sample=options.sample,
        queries=options.queries,
        seed=options.seed,
        wants=options.wants,
        settings=marked,
        notes=_make_notes(options, marked),
        hides=family.find_promise(algorithm),
    )
    return replace(made, sentences=settings.describe_parameters(made))


def measure_cost(database: "Database", dataset: str, one: stored.Choice, sample: int) -> stored.Choice:
    """Say what a proposal leaves out, and how coarse its rows are; or why that is not known.

    What would publish nothing gets no statement.
    """
    people = stored.count_subjects(database.connection, stored.find_dataset(database.connection, dataset).dataset_id)
    drawn = sample if sample < people else None
    options = Sweeping(dataset=dataset, algorithm=one.algorithm, params=one.params, sample=drawn)
    [setting] = sweep_settings(database, one.method, options).settings
    if setting.outcome != "verified":
        if drawn:
            return replace(one, cost="not measured: too few people in the sample")
        return replace(one, cost=f"nothing is published: {setting.reason}", statement="")
    error = setting.error.value if setting.error else None
    figures = {
        "{:.0%} left out": 1 - (setting.share or 0),
        "half of the regions up to {:,.0f} m long": setting.find_value("longer_side_50_m"),
        "counts {:.0%} off": error,
    }
    said = [f"{format_count(drawn, 'person', 'people')} drawn"] if drawn else []
    said += [words.format(figure) for words, figure in figures.items() if figure is not None]
    return replace(one, cost=", ".join(said))


def measure_needs(database: "Database", method: str, options: Planning) -> None:
    """Run a method on some people of a dataset, again, and on four times as many, and keep what it takes for plans.

    The first run says what a program takes that begins, the others what each fix adds. A dataset of few is run whole.
    Nothing is kept unless each run is verified.
    """
    connection, family = database.connection, methods.find_method(method)
    algorithm = family.find_algorithm(options.algorithm).name
    dataset = stored.find_dataset(connection, options.dataset)
    people = stored.count_subjects(connection, dataset.dataset_id)
    most = min(max(people // 8, _FEW_PEOPLE), _MANY_PEOPLE)
    parts, told = (most // 4, most // 4, most) if most < people else (None,), list[dict[str, float]]()
    with sweep_session.open_session(database.lock_url, database.target.url) as lock_key:
        for number in parts:
            sample = Sweeping(
                dataset=options.dataset, algorithm=algorithm, params=options.params or {}, sample=number,
                allow_no_requests=options.allow_no_requests,
            )  # fmt: skip
            [one] = _list_combinations(connection, family, algorithm, dataset, sample)
            work, ids = _Work(database, family, algorithm, sample, lock_key), list[int]()
            with suppress(*_IMPOSSIBLE_ERRORS):
                if work._compute(one, ids).status == "verified":
                    told.append(stored.measure_needs(connection, ids[-1]))
            for dropped in ids:
                stored.drop_run(connection, dropped)
    if len(told) == len(parts):
        first, before, last = told[0], told[len(told) // 2], told[-1]
        more = last["fixes"] - before["fixes"]
        each = {name: max((last[of] - before[of]) / max(more, 1), 0) for name, of in _EACH.items()}
        seconds = first["seconds"] + each["seconds_each"] * more
        evaluation_store.keep(connection, one.key, work._make_unmeasured(needs=last | each | {"seconds": seconds}))


def _demand_allowed(connection: Connection, options: Sweeping) -> None:
    """Refuse a login that may not compute, and runs that would outlive their sample."""
    if not queue.may_compute(connection):
        raise StoreError(
            "A sweep must be made by a login that may compute and read the rows of runs. This one may not. Have "
            "dbanon_worker granted."
        )
    if options.keep and options.sample is not None:
        raise ParameterError(
            "Runs on a sample must be dropped with the sample. Got keep and sample. Leave one out, or run the chosen "
            "setting on all people."
        )


def _find_measured(connection: Connection, combinations: list[_Combination], options: Sweeping) -> dict[int, Setting]:
    """Find the settings that were measured earlier, by their places among all."""
    kept_ones = (
        (place, one, evaluation_store.find(connection, one.key, options.dataset))
        for place, one in enumerate(combinations)
    )
    return {
        place: _make_setting(one, known, is_earlier=True)
        for place, one, known in kept_ones
        if known is not None and (known.run_id is not None or not options.keep)
    }


def _list_combinations(
    connection: Connection, family: methods.Method, algorithm: str, dataset: DatasetRow, options: Sweeping
) -> list[_Combination]:
    """List all combinations; the server checks each before anything is computed."""
    several = {name for name, values in options.values.items() if len(values) > 1}
    described = methods.describe(family)
    made = []
    for given in options.list_combinations():
        checked = stored.complete_params(connection, family.name, algorithm, given)
        connection.execute(
            "SELECT dbanon_internal.demand_needs(dbanon_internal.demand_dataset(%s), %s, %s, %s::text[])",
            [dataset.name, family.name, make_jsonb(checked), ["requests"] * options.allow_no_requests],
        )
        parsed = family.parse(checked, algorithm)
        params = {name: getattr(parsed, name) for name in given}
        key = evaluation_store.Key(
            dataset_id=dataset.dataset_id,
            revision=dataset.revision,
            method=family.name,
            algorithm=algorithm,
            params=checked,
            sample=options.sample,
            against="published",
            queries=options.queries,
            seed=options.seed,
        )
        promise = {about["name"]: getattr(parsed, about["name"]) for about in described if about["promises"]}
        strength = settings.compute_strength(promise, described)
        varied = {name: value for name, value in params.items() if name in several}
        made.append(_Combination(params=params, varied=varied, promise=promise, strength=strength, key=key))
    return made


class _Work:
    """Measures settings one after the other, on the dataset or on a sample of it."""

    def __init__(
        self, database: "Database", family: methods.Method, algorithm: str, options: Sweeping, lock_key: int
    ) -> None:
        self.database, self.family, self.algorithm = database, family, algorithm
        self.options, self.lock_key, self.dataset = options, lock_key, options.dataset
        self.minute: Minute | None = None  # of the setting that was measured last
        self.first: Minute | None = None
        if options.sample is not None:
            database.progress(f"drawing {format_count(options.sample, 'person', 'people')}", 0, None)
            self.dataset = sweep_session.sample_people(database.connection, options.dataset, options.sample, lock_key)

    def measure(self, one: _Combination) -> Evaluation:
        """Compute, attack and ask one setting, keep its figures, and drop its run."""
        began, ids, self.minute = time.perf_counter(), list[int](), None
        try:
            result = self._compute(one, ids)
        except _IMPOSSIBLE_ERRORS as error:
            if ids:  # raises if another login dropped the run, which is no fact about the setting
                stored.find_run(self.database.connection, ids[-1])
            measured = self._make_unmeasured(status="impossible", reason=str(error))
        else:
            measured = self._ask(one, result)
        self._demand_unchanged(one.key.revision)
        about = {
            "version": importlib.metadata.version("dbanon"),
            "releases": evaluation_store.count_releases(self.database.connection, one.key.dataset_id),
            "seconds": round(time.perf_counter() - began, 3),
        }
        run_id = ids[-1] if self.options.keep and ids else None
        measured = replace(measured, run_id=run_id, dataset=self.options.dataset, run={**measured.run, **about})
        evaluation_store.keep(self.database.connection, one.key, measured)
        for dropped in () if self.options.keep else ids:
            stored.drop_run(self.database.connection, dropped)
        return measured

    def _demand_unchanged(self, revision: int) -> None:
        """Raise `DataError` if the data changed, since settings of other data cannot be compared with those before."""
        rows = [stored.find_dataset(self.database.connection, name) for name in (self.options.dataset, self.dataset)]
        if rows[0].revision != revision:
            raise DataError(
                "The data of a dataset must stay as they are during a sweep. Some were loaded or deleted meanwhile. "
                "Begin the sweep again."
            )

    def _compute(self, one: _Combination, ids: list[int]) -> RunResult:
        # What the dataset must have was asked for above. A sample may have no request by chance.
        options = Submitting(dataset=self.dataset, algorithm=self.algorithm, params=one.params, allow_no_requests=True)

        def submit(connection: Connection) -> int:
            with translate_errors():
                run_id = queue.submit_run(connection, self.family.name, options)
            ids.append(run_id)
            if not self.options.keep:
                sweep_session.tie_run(connection, run_id, self.lock_key)
            return run_id

        return self.database._run_here(submit, self.options)

    def _ask(self, one: _Combination, result: RunResult) -> Evaluation:
        """Ask a run questions, if its rows were verified and it has any."""
        connection, run_id = self.database.connection, result.run_id
        if result.status != "verified":
            return self._make_unmeasured(status="refused", reason=result.refusal)
        if not stored.has_rows(connection, run_id):
            return self._make_unmeasured(status="impossible", reason="No person is published: all people are left out.")
        options = Evaluating(queries=self.options.queries, seed=self.options.seed)
        measured = evaluating.measure(self.database.target.url, run_id, options, self.database.progress)
        if measured.questions is not None:
            k = int(one.promise.get("k") or 2)
            self.minute = sample_map.draw(connection, run_id, k, measured.questions, self.first)
            self.first = self.first or self.minute
        run = {
            "attack": dict(result.verdict.figures),
            "seen": result.verdict.figures.get(self.family.totals.get("subjects", "")),
            "replicates": settings.draw_replicates(measured),
            # A release would be of all people, not of those drawn.
            "overlap": None if self.options.sample is not None else _measure_overlap(connection, run_id),
        }
        return replace(measured, run={**measured.run, **run})

    def _make_unmeasured(self, **run: Any) -> Evaluation:
        return Evaluation(
            run_id=None,
            source=f"{self.family.name}, {self.algorithm}",
            dataset=self.options.dataset,
            against="published",
            queries=self.options.queries,
            seed=self.options.seed,
            figures=(),
            run=run,
        )


def _measure_overlap(connection: Connection, run_id: int) -> dict[str, Any]:
    """Measure a run against existing releases; a run that cannot be compared cannot be published."""
    try:
        return stored.measure_overlap(connection, run_id)
    except StoreError:
        raise
    except DbanonError as error:
        return {"relation": "not known", "below": 1, "reason": str(error)}


def _make_setting(one: _Combination, measured: Evaluation, *, is_earlier: bool) -> Setting:
    status = measured.run.get("status")
    return Setting(
        params=one.params,
        varied=one.varied,
        promise=one.promise,
        strength=one.strength,
        outcome="verified" if status == "verified" else "refused" if status == "refused" else "impossible",
        reason=measured.run.get("reason"),
        evaluation=measured if measured.figures else None,
        run=measured.run,
        run_id=measured.run_id,
        is_earlier=is_earlier,
    )


def _demand_known(wants: tuple[Want, ...], measured: Iterable[Setting]) -> None:
    """Refuse a want that no measured setting has a figure for; the measured settings are kept."""
    verified = [one for one in measured if one.outcome == "verified"]
    for want in wants if verified else ():
        if want.name not in METRICS and all(one.find_value(want.name) is None for one in verified):
            known = sorted({*verified[0].figures, *verified[0].run.get("metrics", {}), *METRICS})
            raise ParameterError(
                f"A want must be of a figure that the sweep measures. Got '{want.name[:60]}'. {choose_one(known)}"
            )


def _make_notes(options: Sweeping, marked: tuple[Setting, ...]) -> tuple[str, ...]:
    notes = []
    if options.sample is not None:
        notes.append(
            f"Computed on {format_count(options.sample, 'person', 'people')} drawn at random. With fewer people in a "
            "km2, "
            "regions are larger, counts are further off and fewer settings are possible than with all people. Compare "
            "settings with one another, and measure the chosen one on all people. Settings of a sample are not "
            "compared with earlier releases."
        )
    return (*notes, *dict.fromkeys(note for one in marked if one.evaluation for note in one.evaluation.notes))


@contextmanager
def _show_progress(database: "Database", total: int) -> Iterator[_Clock]:
    """Show the progress of each setting under its name."""
    shown, clock = database.progress, _Clock(total=total, progress=database.progress)
    database.progress = clock
    try:
        yield clock
    finally:
        database.progress = shown
