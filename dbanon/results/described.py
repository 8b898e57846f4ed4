"""The one record of a run or release, from which cards and pages are made.

SQL makes it (``dbanon.release_card``, ``dbanon.run_card``); for analysts it is made from the view's own description,
which has no fact for administrators alone. A page shows no fact that is not in the record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from dbanon.results.figures import Figure

TEST_QUESTIONS = {
    "singling out": "Can one person be picked out of the rows?",
    "linkability": "Can rows be joined: to each other, to other releases, to a list of names?",
    "inference": "Can something be concluded about one person?",
    "attack": "Could the attack itself be wrong?",
}
"""The three tests of the Article 29 Working Party (opinion 05/2014), and that of the attack itself, as questions."""


@dataclass(frozen=True, kw_only=True)
class ClauseFound:
    """The result of the attack for one clause, in plain words; `tested` is None for a reader who may not know."""

    name: str
    passed: bool
    violations: int
    sentence: str
    plain: str
    test: str
    tested: bool | None = True


def name_verdict(clause: Any) -> str:
    """Say what became of a clause of a verdict or a page."""
    if not clause.passed:
        return "BROKEN"
    return {True: "holds", False: "nothing to test", None: "not broken"}[clause.tested]


def count_verdicts(clauses: Sequence[Any]) -> tuple[str, str]:
    """Count clauses by what became of them, with the verb: ("14 of 14", "hold, nothing to test in 4")."""
    idle = sum(name_verdict(clause) == "nothing to test" for clause in clauses)
    held = sum(clause.passed for clause in clauses) - idle
    verb = "are not broken" if any(clause.tested is None for clause in clauses) else "hold"
    return f"{held} of {len(clauses) - idle}", verb + (f", nothing to test in {idle}" if idle else "")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """The people and times left out, in words and shares that point to no single person."""

    meaning: str
    reasons: Mapping[str, str] = field(default_factory=dict)  # the meaning of each reason
    # by kind: ``share`` of all there were, and that of each of the ``reasons``; in words.
    shares: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # begin, end, and percent of people left out; hours are joined until that is at least k people
    hours: Sequence[tuple[datetime, datetime, int]] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a release that grows; `figures` are those that were measured, for private pages alone."""

    since: datetime
    until: datetime
    k: int | None
    rows: int
    percent_left_out: int | None
    withdrawn: bool = False
    run_id: int | None = None
    figures: Sequence[Figure] = ()


@dataclass(frozen=True, kw_only=True)
class Described:
    """A run or a release; a field is None if its reader may not know it, or if it does not exist."""

    name: str  # ``published.taxi_k5``, or ``run 7``
    method: str
    promise: str
    adversary: str
    rows_are: str
    k: int | None
    holds: str
    rows: int | None
    since: datetime | None
    until: datetime | None
    srid: int
    clauses: Sequence[ClauseFound]
    left_open: Mapping[str, str]  # conclusions that a release with all clauses does not rule out, by test
    left_out: LeftOut
    # what was counted in this run, and beside other releases, that no clause forbids; no count below k
    notices: Sequence[str] = ()
    paper: str | None = None
    percent_left_out: int | None = None
    window_s: int | None = None
    parts: Sequence[Part] = ()
    columns: Sequence[tuple[str, str]] = ()  # columns of the view, each with its meaning
    release: str | None = None
    release_id: int | None = None
    run_id: int | None = None
    dataset: str | None = None
    algorithm: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    checked_at: datetime | None = None
    checked_by: str | None = None
    digest: str | None = None
    changed: bool = False  # whether a run's rows or data changed after the attack
    outdated: bool = False  # whether an earlier version attacked it, so that nobody can say whether they changed
    readers: Sequence[str] | None = None  # roles that may read the release, or None for all analysts
    published_at: datetime | None = None
    published_by: str | None = None
    overlap: Mapping[str, Any] | None = None
    overlap_reason: str | None = None
    policy: Mapping[str, Any] | None = None  # what it asks of the run, or asked of the release, and who signed
    box: str | None = None  # around all regions, in degrees, as WKT
    live: bool | None = True  # None for a run
    evaluation: Mapping[str, Any] = field(default_factory=dict)  # what was measured against the truth, for operators
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def lasts_s(self) -> int | None:
        """After how many seconds a record ends: its window may reach beyond all rows."""
        if self.window_s is None or self.since is None or self.until is None:
            return self.window_s
        return min(self.window_s, round((self.until - self.since).total_seconds()))

    @property
    def said_left_out(self) -> str:
        """The share of people and times seen that is left out, in words."""
        if self.percent_left_out is not None:
            return f"{self.percent_left_out} %"
        if self.left_out.shares:
            return self.left_out.shares.get("subjects", {}).get("share") or "not known"
        return f"fewer than {self.k}, or none, or not counted" if self.k is not None else "not known"

    @property
    def held(self) -> int:
        """Number of clauses that nothing breaks."""
        return sum(clause.passed for clause in self.clauses)

    @classmethod
    def from_card(cls, card: Mapping[str, Any]) -> Self:
        """Make it of the record of SQL."""
        attack, left_out = card["attack"], card["left_out"]
        versions = {"dbanon": card["program_version"], **card["versions"]}
        return cls(
            **{name: card[name] for name in _COPIED_FIELDS},
            **{name: attack[name] for name in ("left_open", "notices", "checked_by", "digest")},
            name=f"published.{card['release']}" if card["release"] else f"run {card['run_id']}",
            k=_read_whole(card["k"]),
            holds=card["holds"] or "instant",
            since=parse_moment(card["period"]["since"]),
            until=parse_moment(card["period"]["until"]),
            clauses=tuple(read_clause(one) for one in attack["clauses"]),
            left_out=LeftOut(
                meaning=left_out["meaning"],
                reasons=left_out["reasons"],
                shares=left_out["shares"],
                hours=tuple(
                    (parse_moment(h["since"]), parse_moment(h["until"]), h["percent"]) for h in left_out["joined"] or ()
                ),
            ),
            parts=tuple(_read_part(one) for one in card["parts"]),
            checked_at=parse_moment(attack["checked_at"]),
            changed=bool(attack["changed"]),
            outdated=bool(attack["outdated"]),
            published_at=parse_moment(card["published_at"]),
            evaluation=card["evaluation"] or {},
            versions={name: version for name, version in versions.items() if version},
        )


_COPIED_FIELDS = (
    *("method", "promise", "adversary", "rows_are", "rows", "srid", "paper", "percent_left_out", "release"),
    *("release_id", "run_id", "dataset", "algorithm", "parameters", "readers", "published_by", "overlap"),
    *("overlap_reason", "policy", "box", "live"),
)
"""Fields of `Described` that are called and written alike in the record of SQL."""


def read_clause(clause: Mapping[str, Any]) -> ClauseFound:
    """Read the result for a clause; if the method no longer has the clause, only its name is known."""
    sentence = clause.get("sentence", "")
    return ClauseFound(
        name=clause["name"],
        passed=clause["passed"],
        violations=clause["violations"],
        sentence=sentence,
        plain=clause.get("plain") or sentence.partition("; broken by ")[0],
        test=clause.get("test", "attack"),
        tested=clause.get("tested", True),
    )


def _read_part(part: Mapping[str, Any]) -> Part:
    return Part(
        since=parse_moment(part["since"]),
        until=parse_moment(part["until"]),
        k=_read_whole(part["k"]),
        rows=part["rows"],
        percent_left_out=part["percent_left_out"],
        withdrawn=part["withdrawn_at"] is not None,
        run_id=part["run_id"],
    )


def _read_whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def parse_moment(text: str | None) -> Any:
    """Read a time of JSON; None stays None."""
    return None if text is None else datetime.fromisoformat(text)
