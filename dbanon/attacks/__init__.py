"""What an attack is given, and what it answers.

An attack is a pure function ``Evidence -> Verdict``: it reads what the database holds, never what a method had in
memory, and shares no code with any method. It fails closed: what it cannot decide is a refusal with a clause of its
own, `decidable`. Nothing it says names a subject, a trajectory or a coordinate.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import DataError
from dbanon.trajectory import Float, Int, Trajectories, _freeze

Bool = NDArray[np.bool_]
Kind = TypeVar("Kind", bound="Evidence")


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What the stored rows and the data say about any run; read-only arrays, rows of a table in any order.

    Attributes
    ----------
    method, algorithm : str
        As stored in ``run.method`` and ``run.algorithm``.
    params, suppressed : mapping
        As stored in ``run.params`` (all parameters, also those left at their defaults) and ``run.suppressed``.
    trajectories : Trajectories
        All of the dataset, read anew from the database.
    cloak_record : int64[c]
    cloak_seq : int[c]
    cloak_start_s, cloak_end_s : float64[c]
        The bounds of ``period`` in unix seconds.
    cloak_bounds : float64[c, 4]
        xmin, ymin, xmax, ymax of ``region``.
    cloak_rectangle : bool[c]
        Whether the region is exactly its own envelope: one polygon without holes.
    cloak_srid, cloak_crowd, cloak_subjects : int[c]
    cloak_other_keys : int[c]
        Keys of ``extra`` that are no columns of the method.
    member_record : int64[p]
    member_trajectory : int64[p]
        Trajectory ids (database keys), not checked by the database.
    member_whole : bool[p]
        Whether the membership's ``period`` is null.

    Raises
    ------
    DataError
        If the columns of one table differ in length.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cloak": (
            "record",
            "seq",
            "start_s",
            "end_s",
            "bounds",
            "rectangle",
            "srid",
            "crowd",
            "subjects",
            "other_keys",
        ),
        "member": ("record", "trajectory", "whole"),
    }

    method: str
    algorithm: str
    params: Mapping[str, Any]
    suppressed: Mapping[str, Any]
    trajectories: Trajectories
    cloak_record: Int
    cloak_seq: NDArray[np.integer]
    cloak_start_s: Float
    cloak_end_s: Float
    cloak_bounds: Float
    cloak_rectangle: Bool
    cloak_srid: NDArray[np.integer]
    cloak_crowd: NDArray[np.integer]
    cloak_subjects: NDArray[np.integer]
    cloak_other_keys: NDArray[np.integer]
    member_record: Int
    member_trajectory: Int
    member_whole: Bool

    def __post_init__(self) -> None:
        for table, columns in self.tables.items():
            if len({len(getattr(self, f"{table}_{column}")) for column in columns}) != 1:
                raise DataError("The columns of a table must have one length; this is a defect of the read.")
        if self.cloak_bounds.shape != (len(self.cloak_record), 4):
            raise DataError("A cloak must come with four bounds; this is a defect of the read.")
        _freeze(self)

    def extended(self, kind: type[Kind], **columns: Any) -> Kind:
        """Make a family's own kind of evidence of this and of what only it looks at."""
        return kind(**{item.name: getattr(self, item.name) for item in fields(self)}, **columns)


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One thing that must hold, how often it does not, and a sentence that says both."""

    name: str
    passed: bool
    violations: int
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an attack found: `passed` if every clause did; `figures` are plain numbers that JSON can hold."""

    attack: str
    passed: bool
    figures: Mapping[str, int | float]
    clauses: tuple[Clause, ...]


class Source(Protocol):
    """What an attack may ask the database for beside the stored rows, in the snapshot they are read from."""

    def table(self, function: str, *arguments: str) -> Mapping[str, NDArray[Any]]:
        """Call a SQL evidence function with the run and further texts; its columns by name, without nulls.

        A column of text comes as int64 codes in the order of its distinct texts, one named ``subject`` in the codes of
        the trajectories (-1 where the subject has none).
        """

    def inputs(self, *names: str) -> dict[str, Any]:
        """Read inputs of the run's dataset anew, as those given to the method: `dbanon.trajectory`."""


class Attacker(Protocol):
    """A package that attacks a family: `read` adds to the evidence on any run what this attack looks at as well."""

    def read(self, evidence: Evidence, source: Source) -> Evidence:
        """Read the evidence of the attack."""

    def attack(self, evidence: Any) -> Verdict:
        """Decide; pure."""


def attacker(package: str) -> Attacker:
    """Import the package of an attack, as `dbanon.methods.Method.attack` names it."""
    return cast("Attacker", importlib.import_module(package))
