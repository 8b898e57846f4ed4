"""Formats results for people and scripts: tables, and one JSON object with ``--json``.

Nothing here computes; nothing here shows a subject, a true position or a seed.
"""

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.base.console import make_visible
from dbanon.base.errors import format_count
from dbanon.pages import words
from dbanon.pages.charts import format_metres
from dbanon.results.command import format_run_command
from dbanon.results.described import Described, name_verdict
from dbanon.results.figures import ASKED_WORDS, round_percent

if TYPE_CHECKING:
    from dbanon.database import RunResult
    from dbanon.load import LoadReport
    from dbanon.methods import Method
    from dbanon.results.figures import Asked, Evaluation, Figure
    from dbanon.results.sweep import Setting, Sweep
    from dbanon.runs.stored import Choice, PlanItem
    from dbanon.synth import SynthReport

Rows = Iterable[Sequence[Any]]
LINE_WIDTH = 100
"""Characters of a line that fits a terminal."""


def format_table(header: Sequence[str], rows: Rows) -> str:
    """Lay out rows as aligned text columns; numbers to the right."""
    cells = [[_write_cell(value) for value in row] for row in rows]
    named = [make_visible(name) for name in header]
    widths = [max(len(r[i]) for r in [named, *cells]) for i in range(len(named))]
    right = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(named))]
    lines = [_write_line(named, widths, right), _write_line(["-" * w for w in widths], widths, right)]
    return "\n".join([*lines, *(_write_line(row, widths, right) for row in cells)])


def fit_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out rows as `format_table` does, with the last column broken into lines that fit the width."""
    rows = list(rows)
    used = sum(max(len(row[i]) for row in [header, *rows]) + 2 for i in range(len(header) - 1))
    broken: list[Sequence[str]] = []
    for row in rows:
        first, *others = textwrap.wrap(row[-1], LINE_WIDTH - used) or [""]
        broken += [(*row[:-1], first), *(("",) * (len(header) - 1) + (line,) for line in others)]
    return format_table(header, broken)


def _write_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S%z")
    if isinstance(value, list | dict):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:.2g}" if 0 < abs(value) < 0.1 else f"{value:,.{2 if abs(value) < 1000 else 0}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return make_visible(str(value))


def _is_number(text: str) -> bool:
    return text == "" or text.replace(",", "").replace(".", "").lstrip("-").isdigit()


def _write_line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
    return "  ".join(padded).rstrip()


def format_health(findings: Sequence[Mapping[str, Any]]) -> str:
    """List problems, a line each, with the remedy."""
    levels = {1: "late", 2: "held", 3: "not known"}
    lines = []
    for row in findings:
        since = f" Since {_write_cell(row['since'])}." if row["since"] else ""
        remedy = f" {row['remedy']}." if row["remedy"] else ""
        lines.append(f"{levels[row['level']]}: {row['what']}{since}{remedy}")
    return "\n".join(lines) or "Nothing is wrong."


def format_json(value: Any) -> str:
    """Make the one JSON object of ``--json``."""
    return json.dumps(value, default=_make_plain, sort_keys=False)


def _make_plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def format_load(report: "LoadReport") -> str:
    """Lay out a load as a table: rows read, kept, and quarantined by reason."""
    rows: list[tuple[str, int | str]] = [("load", str(report.load_id))]
    rows += [("rows read", report.read), ("rows kept", report.kept)]
    rows += [(f"quarantined: {reason}", n) for reason, n in sorted(report.quarantined.items())]
    rows += [(f"left out: {reason}", n) for reason, n in sorted(report.left_out.items())]
    if report.trajectories:
        rows += [("trajectories", report.trajectories), ("subjects", report.subjects)]
        rows += [("days of people", report.days)] if report.days is not None else []
        rows += [("SRID", str(report.srid))]
    rows += [(f"kept: {reason}", n) for reason, n in sorted(report.far.items())]
    counts = format_table([f"{report.kind} of dataset {report.dataset}", "count"], rows)
    if report.first_time is None or report.last_time is None:
        return counts
    return f"{counts}\nfrom {report.first_time:%Y-%m-%d %H:%M:%S} to {report.last_time:%Y-%m-%d %H:%M:%S} UTC"


def format_synth(report: "SynthReport") -> str:
    """Lay out what was generated as a table, and the time that it took."""
    where = f"dataset {report.dataset}" if report.dataset is not None else format_count(len(report.files), "file")
    rows: list[tuple[str, int]] = [("nodes", report.nodes), ("edges", report.edges)] if report.nodes else []
    how = f"generated on {report.network}" if report.nodes else f"{report.network},"
    rows += [("nodes left out (not connected)", report.left_out)] * (report.left_out > 0)
    rows += [("trajectories", report.trajectories), ("fixes", report.fixes), ("requests", report.requests)]
    if report.quasi_identifiers:
        rows += [("quasi-identifiers", report.quasi_identifiers)]
    rows += [("points of interest", report.pois)] * (report.pois > 0)
    rows += [("base stations", report.stations)] * (report.stations > 0)
    listing = format_table([f"{how} into {where}", "count"], rows)
    files = "".join(f"Wrote {make_visible(str(file))}\n" for file in report.files)
    seconds = ", ".join(f"{name.removesuffix('_s')} {value:.1f} s" for name, value in report.timings.items())
    known = f"SRID {report.srid}, seed {report.seed}"
    return f"{listing}\n\n{files}{known}\nTime: {seconds}. Peak memory {report.peak_rss_mb:,.0f} MB"


def make_run_json(result: "RunResult") -> dict[str, Any]:
    """Make the object of a run that ``--json`` prints; the keys are an interface."""
    verdict = result.verdict
    attack = {
        "attack": verdict.attack,
        "passed": verdict.passed,
        "figures": dict(verdict.figures),
        "clauses": [
            {name: getattr(c, name) for name in ("name", "passed", "violations", "sentence", "tested")}
            for c in verdict.clauses
        ],
    }
    return {
        "run_id": result.run_id,
        "method": result.method,
        "algorithm": result.algorithm,
        "status": result.status,
        "metrics": dict(result.metrics),
        "verification": {"passed": verdict.passed, "attacks": [attack]},
        "timings": dict(result.timings),
        "suppressed": dict(result.suppressed),
        "peak_rss_mb": result.peak_rss_mb,
        "release": result.release,
        "rows_published": result.rows_published,
        "notices": list(result.notices),
    }


def format_run(result: "RunResult") -> str:
    """Lay out a run: figures, people left out, and the result of the attack."""
    parts = [f"Run {result.run_id} ({result.method}, {result.algorithm}): {result.status}"]
    if result.metrics:
        others = {f"longer_side_{share}_m" for share in range(10, 100, 10) if share not in (50, 90)}
        shown = [(name, value) for name, value in result.metrics.items() if name not in others]
        parts.append(format_table(["figure", "value"], shown))
    left_out = {**result.suppressed.get("subjects", {}), **result.suppressed.get("requests", {})}
    if left_out:
        parts.append(format_table(["left out", "count"], sorted(left_out.items())))
    clauses = [(c.name, name_verdict(c), c.violations) for c in result.verdict.clauses]
    parts.append(format_table([f"attack {result.verdict.attack}", "verdict", "violations"], clauses))
    if result.verdict.figures:
        figures = ", ".join(f"{name} {_write_cell(value)}" for name, value in result.verdict.figures.items())
        parts.append(textwrap.fill(f"The attack counted: {figures}.", LINE_WIDTH))
    if result.timings:
        seconds = ", ".join(f"{name.removesuffix('_s')} {value:.2f} s" for name, value in result.timings.items())
        parts.append(f"Time: {seconds}. Peak memory {result.peak_rss_mb:,.0f} MB")
    if result.release:
        parts.append(format_publication(result.release, result.rows_published or 0))
    return "\n\n".join(parts)


_CARD_FACTS = (
    *("live", "dataset", "method", "algorithm", "program_version", "rows", "grid_m", "grid_s", "reach_s"),
    *("published_at", "published_by", "withdrawn_at", "withdrawn_by", "overlap", "overlap_reason", "readers"),
)


def format_card(card: Mapping[str, Any]) -> str:
    """Lay out a release's card: its words, its plain facts, then counts as tables."""
    words = ("promise", "adversary", "rows_are", "paper")
    facts = [(name.replace("_", " "), card[name]) for name in _CARD_FACTS]
    facts += [("since", card["period"]["since"]), ("until", card["period"]["until"]), ("SRID", str(card["srid"]))]
    if card["atoms"]:
        facts += [("atoms", card["atoms"]["number"])]
        facts += [("points of interest until", card["atoms"]["pois_loaded_at"] or "not known")]
    sides = card["longer_side_m"].items()
    facts += [(f"longer side of regions, {name.replace('_', ' ')}", format_metres(m)) for name, m in sides if m]
    facts += [(f"parameter {name}", value) for name, value in card["parameters"].items()]
    for name, value in (card["policy"] or {}).items():
        facts.append((f"policy {name.replace('_', ' ')}", [s["login"] for s in value] if name == "signed" else value))
    attack, left_out = card["attack"], card["left_out"]
    checked = [(name, attack[name]) for name in ("passed", "checked_at", "checked_by")]
    parts = [
        textwrap.fill(f"{name.replace('_', ' ').capitalize()}: {card[name]}", LINE_WIDTH)
        for name in words
        if card[name]
    ]
    parts.append(format_table([f"release {card['release']}", ""], facts))
    parts.append(format_table([f"attack {attack['name']}", ""], [*checked, *(attack["figures"] or {}).items()]))
    record = Described.from_card(card)
    clauses = [(c.name, name_verdict(c), c.violations, c.test) for c in record.clauses]
    if clauses:
        parts.append(format_table(["clause", "verdict", "violations", "test of"], clauses))
    parts += [textwrap.fill(f"Left open, {test}: {text}", LINE_WIDTH) for test, text in record.left_open.items()]
    parts += [textwrap.fill(f"Left open, of this run: {text}", LINE_WIDTH) for text in record.notices]
    parts.append(textwrap.fill(f"Left out: {left_out['meaning']}", LINE_WIDTH))
    in_all = [("in all", reason, n) for counts in left_out["in_all"].values() for reason, n in counts.items()]
    hours = [(hour["hour"], reason, n) for hour in left_out["by_hour"] for reason, n in hour["left_out"].items()]
    if in_all or hours:
        parts.append(format_table(["left out", "reason", "count"], [*in_all, *hours]))
    return "\n\n".join(parts)


def format_publication(name: str, rows: int) -> str:
    """Report that a release was published, and how to read it."""
    return f"Published {format_count(rows, 'row')} as published.{name}. Read them with: SELECT * FROM published.{name}"


def make_plan_json(items: Sequence["PlanItem"]) -> dict[str, Any]:
    """Make the object of a plan that ``--json`` prints: its items by name."""
    return {"plan": {i.item: {"value": i.value, "exact": i.exact, "note": i.note} for i in items}}


def format_plan(items: Sequence["PlanItem"]) -> str:
    """Lay out a plan: estimates are marked, and the expected end of the run comes last."""
    counts = [(i.item, ("" if i.exact else "about ") + _write_cell(i.value), i.note) for i in items[:-1]]
    ending = items[-1]
    return f"{format_table(['item', 'value', ''], counts)}\n\nExit code {ending.value}: {ending.note}"


def format_choices(dataset: str, choices: Sequence["Choice"]) -> str:
    """Lay out the methods that fit a dataset: what it has, then what each hides and costs, and the command to type."""
    lines = [f"Dataset {make_visible(dataset)}: {choices[0].facts}."]
    for one in choices:
        lines.append(f"{one.algorithm} of {one.method} hides {one.hides}. Here: {one.cost.rstrip('.')}.")
        if one.statement:
            lines.append("  " + format_run_command(one.method, dataset, one.algorithm, one.params, one.publish_as))
    return "\n".join(lines)


def make_sweep_json(sweep: "Sweep", file: Path | None) -> dict[str, Any]:
    """Make the object of a sweep that ``--json`` prints: a row a setting, and the results."""
    chosen = sweep.chosen
    return {
        "dataset": sweep.dataset,
        "method": sweep.method,
        "algorithm": sweep.algorithm,
        "people": sweep.people,
        "sample": sweep.sample,
        "queries": sweep.queries,
        "seed": sweep.seed,
        "settings": [{name: _write_infinity(value) for name, value in row.items()} for row in sweep.rows()],
        "sentences": list(sweep.sentences),
        "notes": list(sweep.notes),
        "command": sweep.write_command(chosen) if chosen else None,
        "file": str(file) if file else None,
    }


def _write_infinity(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def format_sweep(sweep: "Sweep", file: Path | None) -> str:
    """Lay out a sweep: a row a setting, sentences, and the command that publishes the chosen one."""
    off = sweep.squares.removeprefix("squares of ") + " off"
    head = ["setting", "published", off, "usable from", "rows", "seconds", "may be published", ""]
    parts = [format_table(head, [_write_sweep_row(one) for one in sweep.settings])]
    reasons: dict[str, list[str]] = {}
    for one in sweep.settings:
        if one.reason:
            reasons.setdefault(one.reason, []).append(one.name)
    parts += [textwrap.fill(f"{'; '.join(names)}: {reason}", LINE_WIDTH) for reason, names in reasons.items()]
    parts += [textwrap.fill(sentence, LINE_WIDTH) for sentence in (*sweep.sentences, *sweep.notes)]
    chosen = sweep.chosen
    if chosen is None:
        parts.append("No setting meets all wants and can be published.")
    else:
        which = f"of the settings that {'meet all wants and ' if sweep.wants else ''}can be published"
        text = (
            "* on the front of its promise: no other is better in share or error and as good in the other. "
            "Chosen: the strongest promise "
            f"{which}, and of these the least upper end of the error's interval. To publish it:"
        )
        parts.append(f"{textwrap.fill(text, LINE_WIDTH)}\n  {sweep.write_command(chosen)}")
    if file is not None:
        parts.append(f"Wrote {make_visible(str(file))}. It is private: errors are computed from the true data.")
    return "\n\n".join(parts)


def _write_sweep_row(one: "Setting") -> list[Any]:
    name = f"{'* ' if one.is_on_front else '  '}{one.name}"
    marks = ", ".join(word for word, is_so in (("chosen", one.chosen), ("measured before", one.is_earlier)) if is_so)
    if one.outcome != "verified":
        return [name, "", "", "", "", "", "no", one.outcome]
    error = one.error
    off = f"{error.value:.0%}" if error is not None and error.value is not None else ""
    if error is not None and error.low is not None and error.high is not None:
        off += f" [{error.low:.0%}, {error.high:.0%}]"
    side = words.format_usable_resolution(list(one.figures.values()))
    may = {True: "yes", False: "no", None: "not measured"}[one.publishable]
    share = "" if one.share is None else f"{round_percent(one.share)}%"
    return [name, share, off, side, one.run.get("rows"), one.run.get("seconds"), may, marks]


def make_methods_json(described: Iterable[tuple["Method", list[dict[str, Any]]]]) -> dict[str, Any]:
    """Make the object of all families, algorithms and parameters that ``--json`` prints."""
    return {
        "methods": [
            {
                "name": family.name,
                "summary": family.summary,
                "guarantee": family.guarantee,
                "paper": family.paper,
                "algorithms": [vars(one) | {"guarantee": family.find_promise(one.name)} for one in family.algorithms],
                "parameters": parameters,
            }
            for family, parameters in described
        ]
    }


def format_methods(described: Iterable[tuple["Method", list[dict[str, Any]]]]) -> str:
    """Lay out all families, a line or two each."""
    families = [(family.name, family.summary) for family, _ in described]
    listed = fit_table(["method", "is for"], families)
    return f"{listed}\n\n`dbanon methods NAME` shows the promise, the algorithms and the parameters of a method."


def format_method(family: "Method", parameters: Iterable[Mapping[str, Any]]) -> str:
    """Lay out one family, its algorithms and its parameters."""
    sentences = [
        f"{family.name}: {family.summary}",
        family.guarantee,
        *(f"{one.name}: {one.guarantee}" for one in family.algorithms if one.guarantee),
        *([f"Paper: {family.paper}"] if family.paper else []),
    ]
    algorithms = [(a.name, a.summary) for a in family.algorithms]
    named = [(p["name"], p["default_text"], f"{p['help']} It must be {p['requirement']}.") for p in parameters]
    return "\n\n".join(
        [
            "\n".join(textwrap.fill(sentence, LINE_WIDTH) for sentence in sentences),
            fit_table(["algorithm", "does"], algorithms),
            fit_table(["parameter", "default", "meaning"], named),
        ]
    )


def format_evaluation(measured: "Evaluation") -> str:
    """Lay out an evaluation: the main figures, and the error by size."""
    whom = "all people of" if measured.against == "all" else "those published, in"
    questions = f"{format_count(measured.queries, 'question')} of each size (seed {measured.seed})"
    main = [figure for figure in measured.figures if figure.side_m is None]
    sizes = [figure for figure in measured.figures if figure.side_m is not None]
    parts = [
        f"{measured.source}: {questions}, against {whom} {measured.dataset}",
        f"The main figures\n{_list_figures(main)}",
        f"How far counts are off\n{_list_sizes(sizes)}",
    ]
    if measured.others:
        parts.append(f"Its other parts, the newest first\n{_list_parts(measured.others)}")
    return "\n\n".join([*parts, *("\n".join(f"Note: {note}" for note in measured.notes),) * bool(measured.notes)])


def _list_parts(measured: "Iterable[Evaluation]") -> str:
    """Lay out parts of a release that grows, a line each."""
    rows = []
    for one in measured:
        share = one.find_figure("published_share")
        before = one.notes[0] if one.questions is None else ""  # no questions are kept
        rows.append(
            [
                one.run_id,
                *(one.period or (None, None)),
                _write_value(share.value if share else None, "share"),
                words.format_usable_resolution(one.figures),
                before,
            ]
        )
    return format_table(["run", "since", "until", "published", "usable resolution", ""], rows)


def _list_figures(figures: "Iterable[Figure]") -> str:
    """Lay out figures, a line each, with interval and meaning."""
    from dbanon.metrics import METRICS

    rows = []
    for one in figures:
        about = METRICS[one.name]
        value, low, high = (_write_value(number, about.unit) for number in (one.value, one.low, one.high))
        ends = "" if one.low is None or low == high else f"{low} to {high}"
        rows.append((about.title, ASKED_WORDS[one.asked] if one.asked else "", value, ends, about.plain))
    return fit_table(["figure", "", "value", "90 % interval", "meaning"], rows)


def _list_sizes(figures: "Iterable[Figure]") -> str:
    """Lay out figures of counts, a line for each size and kind of question."""
    sizes: dict[tuple[float, Asked], dict[str, Figure]] = {}
    for one in figures:
        sizes.setdefault((one.side_m or 0, one.asked or "moment"), {})[one.name] = one
    rows = []
    for (side, asked), by_name in sorted(sizes.items(), key=lambda item: (item[0][1], item[0][0])):
        error = by_name["count_error"]
        ends = f"{_write_value(error.low, 'share')} to {_write_value(error.high, 'share')}"
        shown = (("bias", "share"), ("bounds_width", "people"), ("coverage", "share"))
        others = [_write_value(by_name[name].value, unit) for name, unit in shown]
        rows.append([format_metres(side), ASKED_WORDS[asked], _write_value(error.value, "share"), ends, *others])
    return format_table(["squares", "asked", "off by", "90 % interval", "bias", "bounds apart", "truth within"], rows)


def _write_value(value: float | None, unit: str) -> str:
    """Write a figure with its unit, to three digits."""
    if value is None:
        return "not known"
    if value == float("inf"):
        return "over all sizes"
    if unit == "share":
        return f"{100 * value:.3g} %"
    return f"{value:,.0f} {unit}" if unit in ("m", "s") else f"{value:,.3g} {unit}".rstrip()


def make_evaluation_json(measured: "Evaluation") -> dict[str, Any]:
    """Give an evaluation without its questions and their truth; infinity, which JSON lacks, as a text."""
    figures = [
        {name: str(value) if value == float("inf") else value for name, value in vars(one).items()}
        for one in measured.figures
    ]
    named = ("run_id", "source", "dataset", "against", "queries", "seed", "notes", "period")
    others = [make_evaluation_json(one) for one in measured.others]
    return {**{name: getattr(measured, name) for name in named}, "figures": figures, "others": others}
