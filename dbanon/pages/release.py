"""Makes the page of a release or a run: for the file of a privacy officer, for analysts, and with truth for operators.

The record says what is known, `Shown` what is drawn of the rows; a private page has `Truth` and `Evaluation` as well. No
other thing goes in, and nothing is computed from what a page of the audience may not show.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
from markupsafe import Markup

from dbanon.base.described import TESTS, Described
from dbanon.base.figures import Evaluation, Figure
from dbanon.pages import charts, frame, maps, words
from dbanon.pages.shown import Moment, Shown, Truth, levels

Audience = Literal["file", "analysts", "operators"]

_MOST_ROWS = 12
_ASKED = {
    "count_inside": "how many people in an area, at a moment or over a time",
    "density": "how many people in each square of a grid, hour by hour",
    "flows": "how many go from which zone to which",
    "crossings": "how many cross a line, in each direction",
    "dwell": "how many stay in an area, and how long",
    "requests_inside": "how many asked for what in an area",
}
_NOT_TRIED = (
    "newspapers, social media, other publications about the same people that dbanon does not know, guesses by nearness"
)


def page(
    record: Described,
    shown: Shown,
    audience: Audience,
    zone: ZoneInfo,
    *,
    truth: Truth | None = None,
    evaluation: Evaluation | None = None,
) -> str:
    """Make the page; `truth` and `evaluation` are for operators alone.

    Raises `ValueError` if the page of another audience is given them: a defect of the caller.
    """
    private = audience == "operators"
    if not private and (truth is not None or evaluation is not None):
        raise ValueError("A page that is not private must not be given the truth.")
    made = {"file": _file, "analysts": _analysts, "operators": _operators}[audience]
    body = made(_Page(record, shown, zone, truth, evaluation))
    band = {
        "file": "To file with the impact assessment. Shows shares of what was left out, no true position.",
        "analysts": f"For readers of {record.name}. Made from the view alone: no true position went into it.",
        "operators": f"PRIVATE: shows true positions. For operators of the dataset {record.dataset}. Do not forward.",
    }[audience]
    head = {
        "file": "for the impact assessment",
        "analysts": "for its readers",
        "operators": f"for operators of {record.dataset}",
    }[audience]
    around = frame.Frame(
        title=f"{record.name}: what it promises, and what it shows",
        band=band,
        head=head,
        foot=_foot(record),
        private=private,
    )
    return frame.document(around, _header(record, zone), *body)


def _foot(record: Described) -> str:
    version = f" by dbanon {record.versions['dbanon']}" if "dbanon" in record.versions else ""
    of = f", release {record.release_id}" if record.release_id is not None else ""
    run = f", run {record.run_id}" if record.run_id is not None else ""
    return f"Computed{version} as {record.name}{of}{run}"


def _local(time: datetime | None, zone: ZoneInfo) -> datetime | None:
    return None if time is None else time.astimezone(zone)


def _header(record: Described, zone: ZoneInfo) -> Markup:
    known = [
        f"Method {record.method}" + (f" ({record.algorithm})" if record.algorithm else ""),
        f"k = {record.k}" if record.k is not None else "",
        f"dataset {record.dataset}" if record.dataset else "",
        words.span(_local(record.since, zone), _local(record.until, zone)),
        f"{record.rows:,} rows" if record.rows is not None else "",
        f"published {words.when(_local(record.published_at, zone))}" if record.published_at else "",
    ]
    return frame.header(record.name, words.with_k(record.promise, record.k), " · ".join(filter(None, known)))


class _Page:
    """The blocks of pages about one release; each appears on those pages that name it below."""

    def __init__(
        self, record: Described, shown: Shown, zone: ZoneInfo, truth: Truth | None, evaluation: Evaluation | None
    ) -> None:
        self.record, self.shown, self.zone = record, shown, zone
        self.truth, self.evaluation = truth, evaluation

    # ---- what stands on top ----

    def facts(self) -> Markup:
        record, shown = self.record, self.shown
        found: list[tuple[str, str, bool]] = [
            (f"{record.held} of {len(record.clauses)}", "clauses of the attack hold on the stored rows", False)
        ]
        if record.k is not None:
            found.append((f"{record.k} or more", "people whom a row hides", False))
        if record.percent_left_out is not None:
            found.append((f"{100 - record.percent_left_out} %", "of the people and times seen are published", False))
        else:
            found.append((f"fewer than {record.k}", "people, or none, are left out", False))
        if len(shown.sides) == 3:
            found.append((words.length(shown.sides[1]), "half of the regions are narrower than this", False))
        resolution = self.figure("usable_resolution_m")
        if self.evaluation is not None and resolution is not None:
            found.append(
                (_resolution(resolution), "usable resolution: counts in wider squares are off by 20 % or less", True)
            )
        elif record.window_s is not None:
            found.append(
                (words.duration(record.window_s), "is how long a record lasts; nothing joins it to the next", False)
            )
        return frame.facts(found)

    def figure(self, name: str, side_m: float | None = None) -> Figure | None:
        if self.evaluation is not None:
            return self.evaluation.figure(name, side_m=side_m)
        return next((one for one in self.record.evaluation if one.name == name and side_m in (None, one.side_m)), None)

    # ---- maps ----

    def map(self) -> Markup:
        moment, window = self.shown.moment, self.shown.window
        if moment is None or window is None:
            return frame.card("No map", "There are no rows that hide people, so there is nothing to draw.")
        at = moment.at.astimezone(self.zone)
        words_of = f"{at:%H:%M}"
        drawn = maps.panel(
            "published-map",
            f"Published at {words_of}",
            f"{len(moment.regions)} regions of rows that hold at {words_of}; each hides {self.shown.k} people or more.",
            window,
            maps.backdrop(self.shown.lines, self.shown.areas),
            maps.regions(moment.regions, marked=moment.marked),
        )
        caption = Markup('<b class="is-published">Published: {} of the {:,} rows that hold at {}.</b> {}').format(
            _regions(moment), moment.rows, words_of, self._around()
        )
        return frame.picture(drawn, caption, class_="map")

    def _around(self) -> str:
        said = f"One region hides {words.spelled(self.shown.k)} people or more; where many lie it is darker."
        outside = " The map shows where 95 % of the people and time are; rows may lie outside."
        backdrop = " What lies under it is a public table." if self.shown.lines or self.shown.areas else ""
        exact = f" Rows that hide nobody ({words.percent(self.shown.exact)}) are not drawn." if self.shown.exact else ""
        return said + outside + exact + backdrop

    def pair(self) -> Markup:
        """Draw what is private beside what is published, at one time."""
        moment, window, truth = self.shown.moment, self.shown.window, self.truth
        if moment is None or window is None or truth is None:
            return frame.columns(self.map())
        at = f"{moment.at.astimezone(self.zone):%H:%M}"
        left = maps.panel(
            "private-map",
            f"Private at {at}",
            f"Where {truth.people} people last were at {at}: one dot each.",
            window,
            maps.backdrop(self.shown.lines, self.shown.areas),
            maps.dots(truth.places),
            maps.dots(truth.marked, size=7, marked=True),
            private=True,
        )
        inside = f"{len(truth.places)} of {truth.people} are in the map."
        caption = Markup('<b class="is-private">Private: where {:,} people were at {}.</b> One dot each; {}').format(
            truth.people, at, inside
        )
        group = (
            frame.card(
                "How to read the pair",
                "The outlined dots are one group, and the outlined region is its row. A reader of the view sees the region "
                "and what it says of all in it: not which of them, nor where inside they are.",
            )
            if len(truth.marked)
            else Markup("")
        )
        return frame.columns(frame.picture(left, caption, class_="map"), self.map(), group)

    def hours(self) -> Markup:
        window = self.shown.window
        if window is None or not self.shown.hours:
            return Markup("")
        side = charts.metres(self.shown.cell_m)
        few, used = not self.shown.exact, levels(self.shown.k)
        legend = frame.legend([(f"class-{n}", f"{name} people") for n, name in enumerate(used) if n or few])
        figures = []
        for place, (hour, cells) in enumerate(self.shown.hours):
            name = f"{hour:%H:%M}"
            drawn = maps.panel(
                f"hour-{place}",
                f"People at {name}",
                _counted(cells, used),
                window,
                maps.cells(cells),
                bar=False,
            )
            figures.append(frame.picture(drawn, name))
        lead = (
            f"What published.density tells: people expected in each square of {side}, mean of the hour. People are taken to "
            "be spread evenly over their regions, which flattens peaks."
        )
        return frame.section("Hour by hour", legend, frame.small_maps(*figures), lead=lead)

    def atoms(self) -> Markup:
        window = self.shown.window
        if window is None or not self.shown.atoms:
            return Markup("")
        shape = Markup('<path d="{}" class="line-published"/>').format(self.shown.atoms)
        drawn = maps.panel("atoms", "Atoms", "The cells that rows are made of; they are public.", window, shape)
        return frame.picture(drawn, "The cells that rows are made of (published.atoms).", class_="map")

    # ---- charts ----

    def sizes(self) -> Markup:
        shown = self.shown
        if not shown.sizes or len(shown.sides) != 3:
            return Markup("")
        half, low, high = words.length(shown.sides[1]), words.length(shown.sides[0]), words.length(shown.sides[2])
        drawn = charts.histogram(
            "sizes",
            "How large the regions are",
            f"Side of a square as large as a region: a tenth under {low}, half under {half}, nine tenths under {high}.",
            shown.sizes,
            mark=(shown.sides[1], f"half are under {half}"),
            axis="side of a square as large as the region",
        )
        return frame.block(
            "How large are the regions?",
            frame.picture(
                drawn,
                f"A tenth lies in regions under {low}, nine tenths under {high}. A region counts for each of its people and "
                "minutes. The last bar is open: it holds all that are larger.",
            ),
        )

    def scale(self) -> Markup:
        """Draw three regions to the scale of the map."""
        window, sides = self.shown.window, self.shown.sides
        if window is None or len(sides) != 3:
            return Markup("")
        wide = window.x1 - window.x0
        middle = (window.y0 + window.y1) / 2
        cut = maps.Window(x0=window.x0, x1=window.x1, y0=middle - wide / 4, y1=middle + wide / 4)
        squares = [
            f"M{maps.UNITS / 2 - half:.0f} {maps.UNITS / 4 - half:.0f}h{2 * half:.0f}v{2 * half:.0f}h-{2 * half:.0f}z"
            for half in (side / cut.unit_m / 2 for side in sides)
        ]
        said = ", ".join(
            f"{name} under {words.length(side)}"
            for name, side in zip(("a tenth", "half", "nine tenths"), sides, strict=True)
        )
        drawn = maps.panel(
            "scale", "Regions to scale", f"Squares as wide as the regions: {said}.", cut, maps.regions(squares)
        )
        return frame.block(
            "The same, to scale",
            frame.picture(drawn, f"As wide as the map: {words.length(wide)}. Squares: {said}.", class_="map"),
        )

    def crowds(self) -> Markup:
        rows = [charts.Bar(label=label, value=share, text=words.percent(share)) for label, share in self.shown.crowds]
        if not rows:
            return Markup("")
        said = "; ".join(f"{row.label}: {row.text}" for row in rows)
        drawn = charts.bars("crowds", "How many people a row hides", f"Of people and time: {said}.", rows, most=1)
        return frame.block(
            "How many does a row hide?",
            frame.picture(drawn, f"Share of people and time. k is {self.shown.k}. The last bar is open."),
        )

    def left_out(self) -> Markup:
        hours = [
            (_local(since, self.zone), _local(until, self.zone), n) for since, until, n in self.record.left_out.hours
        ]
        hours = hours[-48:]
        if not hours:
            return Markup("")
        since, until = hours[0][0], hours[-1][1]
        assert since is not None and until is not None  # noqa: S101, PT018
        span_h = (until - since).total_seconds() / 3600
        every = next((step for step in (1, 2, 3, 6, 12, 24) if span_h / step <= 5), 24)
        ticks = [(h, f"{since + (until - since) * (h / span_h):%H:%M}") for h in range(0, int(span_h) + 1, every)]
        blocks = [
            charts.Block(
                since=(a - since).total_seconds() / 3600, until=(b - since).total_seconds() / 3600, value=n, kind="gone"
            )
            for a, b, n in hours
            if a is not None and b is not None
        ]
        most = max(hours, key=lambda hour: hour[2])
        drawn = charts.columns(
            "left-out",
            "Who is left out, and when",
            f"Percent of the people and times seen that are left out: at most {most[2]} %, from {most[0]:%H:%M} to {most[1]:%H:%M}.",
            blocks,
            x=charts.Axis(low=0, high=span_h, ticks=ticks),
            y=charts.axis(most[2], unit=" %", steps=3),
        )
        return frame.block(
            "Who is left out, and when?",
            frame.picture(
                drawn,
                f"Percent of people left out, most from {most[0]:%H:%M} to {most[1]:%H:%M} ({most[2]} %). Hours with few are "
                "joined, as in published.left_out.",
            ),
        )

    def questions(self) -> Markup:
        rows, true = self.shown.questions, Markup("")
        if not rows:
            return Markup("")
        high = max(one.at_most for one in rows)
        drawn = charts.ranges(
            "questions",
            "Questions about squares",
            "; ".join(f"{q.label}: {q.at_least:,.0f} to {q.at_most:,.0f}, expected {q.expected:,.0f}" for q in rows)
            + ".",
            [charts.Range(label=q.label, low=q.at_least, high=q.at_most, dot=q.expected) for q in rows],
            charts.axis(high, name="people in the square"),
        )
        return frame.block(
            "Some questions",
            frame.picture(
                drawn,
                Markup(
                    "People in squares at some moments. Bar: <code>at_least</code> to <code>at_most</code>, which hold. "
                    '<b class="is-published">Dot: expected</b>, a guess.{}'
                ).format(true),
            ),
        )

    # ---- tables and cards ----

    def tests(self) -> Markup:
        rows = []
        for test in ("singling out", "linkability", "inference"):
            of = [clause for clause in self.record.clauses if clause.test == test]
            held = sum(clause.passed for clause in of)
            broken = [clause.name for clause in of if not clause.passed]
            verdict = Markup('<span class="{}">{}</span>').format(
                "good" if held == len(of) else "warn",
                (f"{held} of {len(of)} hold" if of else "no clause")
                + (f"; broken: {', '.join(broken)}" if broken else ""),
            )
            rows.append((test.capitalize(), TESTS[test], verdict, self.record.left_open.get(test, "")))
        return frame.section(
            "The three tests of the regulators",
            frame.table(["test", "asks", "clauses of the attack", "what is left open, by design"], rows),
            note="Article 29 Working Party, opinion 05/2014, WP216",
        )

    def clauses(self) -> Markup:
        groups = []
        known = any(clause.sentence for clause in self.record.clauses)
        for test, asks in TESTS.items():
            rows = [
                (
                    frame.mono(clause.name),
                    words.with_k(clause.plain, self.record.k),
                    Markup('<span class="{}">{}</span>').format(
                        *(("good", "holds") if clause.passed else ("warn", "BROKEN"))
                    ),
                    *([_broken_by(clause.sentence)] if known else []),
                )
                for clause in self.record.clauses
                if clause.test == test
            ]
            if rows:
                name = test.capitalize() if test != "attack" else "The attack itself"
                groups.append((Markup('{}. <span class="soft">{}</span>').format(name, asks), rows))
        head = ["clause", "in plain words", "verdict", *(["broken by"] if known else [])]
        return frame.section(f"All {words.spelled(len(self.record.clauses))} clauses", frame.grouped(head, groups))

    def says(self) -> Markup:
        return frame.block("What a row says", Markup("<p>{}</p>").format(self.record.rows_are))

    def intruder(self) -> Markup:
        record = self.record
        count = len(record.clauses)
        found = "nothing" if record.held == count else f"{count - record.held} clauses broken"
        who = (
            f"{words.when(_local(record.checked_at, self.zone))}, by {record.checked_by}"
            if record.checked_at
            else "before publication"
        )
        version = f", version {record.versions['dbanon']}" if "dbanon" in record.versions else ""
        said = [
            ("Knows", record.adversary),
            ("Did", f"read all stored rows and the data again, and looked for what breaks each of {count} clauses."),
            ("Found", f"{found}."),
            ("When", f"{who}{version}."),
            ("Not tried", f"{_NOT_TRIED}."),
        ]
        return frame.card("Motivated intruder, recorded (ICO)", *(Markup("<b>{}:</b> {}").format(*one) for one in said))

    def out(self) -> Markup:
        left_out = self.record.left_out
        said: list[object] = [left_out.meaning]
        for kind, shares in left_out.shares.items():
            name = {"subjects": "People and times seen", "requests": "Requests"}.get(
                kind, kind.replace("_", " ").capitalize()
            )
            reasons = [
                f"{left_out.reasons.get(reason, reason).rstrip('.')}: {share or 'not known'}"
                for reason, share in shares.get("reasons", {}).items()
            ]
            detail = f" ({'; '.join(reasons)})" if reasons else ""
            said.append(Markup("<b>{}:</b> {}{}.").format(name, shares.get("share") or "not known", detail))
        if not left_out.shares and self.record.percent_left_out is not None:
            said.append(f"Left out of the people and times seen: {self.record.percent_left_out} %.")
        said.append("Those left out are not like the others: what the release says is not said of them.")
        return frame.card("Left out", *said)

    def readers(self) -> Markup:
        record = self.record
        who = (
            f"every login with one of {words.listed(list(record.readers), 'or')}"
            if record.readers
            else "every login of an analyst"
        )
        name = record.release
        take_back = (
            Markup(
                "<b>Withdraw:</b> {}, at once for new queries. What was read or exported stays with its reader, and stays counted "
                "against later releases."
            ).format(frame.mono(f"SELECT dbanon.unpublish('{name}')"))
            if name
            else Markup("It is not published: nobody reads it.")
        )
        return frame.card(
            "Who reads it; taking it back",
            Markup("<b>Readers:</b> {}: the view, no table behind it.").format(who) if name else "",
            take_back,
        )

    def beside(self) -> Markup:
        record, overlap = self.record, self.record.overlap
        if record.release is None:
            said = "Not published, so it was held against no other release yet; dbanon does that before it publishes."
        elif not overlap:
            said = "Held against every earlier release of the same people, withdrawn ones too: there is none that speaks of the same time."
        else:
            least = overlap.get("smallest")
            said = (
                "Held against every earlier release of the same people, withdrawn ones too. Some speak of the same time"
            )
            said += f": of those who may be meant, {least} or more are left." if least is not None else "."
        allowed = f"An overlap was allowed, because: {record.overlap_reason}" if record.overlap_reason else ""
        return frame.card(
            "Beside other releases", said, "Every later release is held against this one.", *filter(None, [allowed])
        )

    def source(self) -> Markup:
        record = self.record
        versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
        digest = record.digest
        return frame.card(
            "Where it comes from",
            record.paper or "A method of dbanon's own.",
            *(
                [f"Parameters: {words.settings(record.parameters)}. The seed is kept private."]
                if record.parameters
                else []
            ),
            f"Coordinates: metres of SRID {record.srid}.",
            *([f"Made with: {versions}."] if versions else []),
            *([Markup("Digest of the rows that were attacked: {}").format(frame.mono(digest))] if digest else []),
        )

    def parts(self) -> Markup:
        if len(self.record.parts) < 2:
            return Markup("")
        rows = [
            (
                words.span(_local(part.since, self.zone), _local(part.until, self.zone)),
                "" if part.k is None else part.k,
                f"{part.rows:,}",
                "few, or none" if part.percent_left_out is None else f"{part.percent_left_out} %",
                "withdrawn" if part.withdrawn else "",
            )
            for part in reversed(self.record.parts)
        ]
        note = f"the newest {_MOST_ROWS * 3} of {len(rows)}" if len(rows) > _MOST_ROWS * 3 else ""
        return frame.section(
            "All parts, the newest first",
            frame.table(["part", "k", "rows", "left out", ""], rows[: _MOST_ROWS * 3], numbers=[1, 2, 3]),
            note=note,
            lead="Each was computed, attacked and published for itself. The pictures on this page are of the newest.",
        )

    def utility(self) -> Markup:
        """Say how far answers are off, held against the true positions; private."""
        record, evaluation = self.record, self.evaluation
        if evaluation is None:
            said = frame.card(
                "Not measured yet",
                Markup("How far answers are off is measured by {}; then this page shows it.").format(
                    frame.mono(f"dbanon evaluate {record.release or record.run_id}")
                ),
            )
            return frame.section("How far off are answers?", said)
        blocks = [self.errors(evaluation), self.asked(evaluation)]
        rows = [
            (
                one.name,
                _side(one),
                {"moment": "at a moment", "span": "over ten minutes", None: ""}[one.asked],
                _value(one),
                _interval(one),
            )
            for one in evaluation.figures
        ]
        table = frame.table(["figure", "squares", "asked", "value", "90 % interval"], rows, numbers=[3, 4])
        lead = (
            f"{evaluation.queries} random squares of each size at random times. How far it is off is given in percent of the mean "
            "truth, with 90 % intervals."
        )
        notes = [frame.card("To know", *evaluation.notes)] if evaluation.notes else []
        return frame.section(
            "How far off are answers?",
            frame.columns(*blocks),
            *notes,
            table,
            note="held against true positions: private",
            lead=lead,
        )

    def errors(self, evaluation: Evaluation) -> Markup:
        lines, most = [], 0.2
        for asked, name in (("moment", "at a moment"), ("span", "ten minutes")):
            found = [
                one
                for one in evaluation.figures
                if one.name == "count_error" and one.asked == asked and one.side_m is not None and one.value is not None
            ]
            points = []
            for one in sorted(found, key=lambda one: one.side_m or 0):
                value = one.value or 0.0
                low, high = (value if end is None else end for end in (one.low, one.high))
                points.append((one.side_m or 0.0, 100 * value, 100 * low, 100 * high))
                most = max(most, high)
            if points:
                lines.append(charts.Line(name=name, points=points, dashed=asked == "span"))
        if not lines:
            return Markup("")
        sides = sorted({point[0] for line in lines for point in line.points})
        x = charts.Axis(
            low=sides[0],
            high=max(sides[-1], sides[0] * 2),
            ticks=[(s, charts.metres(s)) for s in sides],
            log=True,
            name="side of the square",
        )
        said = "; ".join(
            f"{line.name}: " + ", ".join(f"{charts.metres(side)} {value:.0f} %" for side, value, _, _ in line.points)
            for line in lines
        )
        drawn = charts.lines(
            "errors",
            "Error by the size of the area",
            f"Private. {said}.",
            lines,
            x=x,
            y=charts.axis(100 * min(most, 2), unit=" %"),
            level=(20, "20 %"),
        )
        return frame.block(
            "By the size of the area",
            frame.picture(
                drawn,
                Markup('<b class="is-private">Private.</b> How far counts are off, in percent of the mean truth.'),
            ),
        )

    def asked(self, evaluation: Evaluation) -> Markup:
        questions, answers, true = evaluation.questions, evaluation.answers, evaluation.true
        if questions is None or answers is None or true is None:
            return Markup("")
        having = np.flatnonzero((true > 0) & questions.moment) if questions.moment.any() else np.flatnonzero(true > 0)
        chosen = having[np.argsort(-true[having], kind="stable")]
        chosen = (
            chosen[np.unique(np.linspace(0, max(len(chosen) - 1, 0), _MOST_ROWS).astype(int))]
            if len(chosen)
            else chosen
        )
        rows = [
            charts.Range(
                label=f"{charts.metres(questions.side_m[q])}, {datetime.fromtimestamp(questions.since[q], self.zone):%H:%M}",
                low=answers.at_least[q],
                high=answers.at_most[q],
                dot=answers.expected[q],
                true=true[q],
            )
            for q in chosen
        ]
        if not rows:
            return Markup("")
        said = "; ".join(f"{r.label}: told {r.low:,.0f} to {r.high:,.0f}, true {r.true or 0:,.0f}" for r in rows)
        drawn = charts.ranges(
            "asked",
            "Questions with the truth",
            f"Private. {said}.",
            rows,
            charts.axis(max(r.high for r in rows), name="people in the square"),
        )
        return frame.block(
            f"{words.spelled(len(rows)).capitalize()} of the questions",
            frame.picture(
                drawn,
                Markup(
                    '<b class="is-private">Private.</b> Bar: <code>at_least</code> to <code>at_most</code>. '
                    '<b class="is-published">Dot: expected.</b> <b class="is-private">Diamond: true.</b>'
                ),
            ),
        )

    def may_ask(self) -> Markup:
        offered = {column for column, _ in self.record.columns}
        names = [name for name in _ASKED if name != "requests_inside" or "requests" in offered]
        return frame.section(
            "What you may ask",
            frame.table(["function of published", "answers"], [(frame.mono(name), _ASKED[name]) for name in names]),
            frame.code(
                f"SELECT * FROM published.count_inside('{self.record.name}',\n"
                "  ST_MakeEnvelope(..., 4326), at => '...');\n-- at_least, expected, at_most"
            ),
            Markup("<p>{}</p><p>{}</p>").format(
                "Add up subjects over the rows of one period to count people; never add up crowd, and never count rows.",
                "The middle of a region is no position: nobody need be there. One place is surely busier than another only where its "
                "at_least exceeds the at_most of the other.",
            ),
        )

    def columns(self) -> Markup:
        rows = [(frame.mono(name), meaning or "") for name, meaning in self.record.columns]
        return frame.section("Columns", frame.table(["column", "meaning"], rows)) if rows else Markup("")

    def again(self) -> Markup:
        record = self.record
        if record.dataset is None:
            return Markup("")
        given = " ".join(f"-p {name}={value}" for name, value in record.parameters.items() if value is not None)
        publish = f" --publish {record.release}" if record.release else ""
        lines = [
            f"dbanon run {record.method} --dataset {record.dataset} --algorithm {record.algorithm} {given}{publish}"
        ]
        lines.append(f"dbanon report {record.release or record.run_id}")
        note = Markup(
            '<p class="small soft">The seed is kept private: whoever has it may learn how ties were broken.</p>'
        )
        return frame.section("Make it again", frame.code("\n".join(lines)), note)

    def pictures(self) -> Markup:
        blocks = [self.left_out(), self.sizes(), self.crowds(), self.scale(), self.atoms()]
        return frame.section("What the rows look like", frame.columns(*filter(None, blocks)))


def _file(page: _Page) -> Iterable[Markup]:
    return [
        page.facts(),
        frame.wide(page.map(), page.says(), page.intruder(), page.out(), page.readers()),
        page.tests(),
        frame.signatures("assessed by", "approved by (data protection officer)", "date", "next review"),
        page.clauses(),
        page.pictures(),
        frame.section("Around it", frame.columns(page.beside(), page.source())),
        page.parts(),
        page.again(),
    ]


def _analysts(page: _Page) -> Iterable[Markup]:
    return [
        page.facts(),
        frame.wide(page.map(), page.says(), page.out(), page.questions()),
        page.may_ask(),
        page.hours(),
        page.pictures(),
        page.columns(),
        page.parts(),
        page.tests(),
        frame.section(
            "Around it",
            frame.columns(
                frame.card(
                    "If a query says that the view does not exist",
                    "It was withdrawn, or is for others now: ask the administrator. If it was replaced while you asked, ask again. "
                    "Numbers of records are drawn anew in each release: do not keep them.",
                ),
                page.source(),
            ),
        ),
    ]


def _operators(page: _Page) -> Iterable[Markup]:
    return [
        page.facts(),
        page.pair(),
        page.utility(),
        page.tests(),
        frame.section("On record", frame.columns(page.intruder(), page.out(), page.readers(), page.beside())),
        page.hours(),
        page.pictures(),
        page.clauses(),
        page.parts(),
        frame.section("Source", page.source()),
        page.again(),
    ]


def _counted(cells: Mapping[int, str], names: Sequence[str]) -> str:
    """Say how many cells there are of each class; each is a closed path."""
    return "; ".join(f"cells with {names[n]}: {path.count('M')}" for n, path in sorted(cells.items())) or "none"


def _regions(moment: Moment) -> str:
    return f"{len(moment.regions):,} regions"


def _broken_by(sentence: str) -> str:
    """Take what a clause is broken by out of its sentence: "0 of 2,623 records"."""
    _, _, by = sentence.partition("; broken by ")
    return by.split(". ")[0].rstrip(".")


def _resolution(one: Figure) -> str:
    if one.value is None or one.value == float("inf"):
        return "not reached"
    return words.length(one.value)


def _side(one: Figure) -> str:
    return "" if one.side_m is None else charts.metres(one.side_m)


def _value(one: Figure) -> str:
    if one.value is None:
        return "-"
    return f"{one.value:,.0f}" if abs(one.value) >= 100 else f"{one.value:.3g}"


def _interval(one: Figure) -> str:
    if one.low is None or one.high is None:
        return ""
    ends = [f"{end:,.0f}" if abs(end) >= 100 else f"{end:.3g}" for end in (one.low, one.high)]
    return f"{ends[0]} to {'more' if one.high == float('inf') else ends[1]}"
