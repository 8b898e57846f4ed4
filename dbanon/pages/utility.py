"""Draws how far answers are off, held against true positions: blocks of private pages alone."""

from datetime import datetime

import numpy as np
from markupsafe import Markup

from dbanon.base.figures import Evaluation, Figure, Questions
from dbanon.pages import charts, frame, words
from dbanon.pages.blocks import Blocks

_MOST_ROWS = 12


class Utility(Blocks):
    """Errors by size, questions with the truth, and all figures with their intervals."""

    def utility(self) -> Markup:
        """Say how far answers are off, held against the true positions; private."""
        record, evaluation = self.record, self.evaluation
        if evaluation is None:
            said = (
                frame.card("Not measured", self.unmeasured)
                if self.unmeasured
                else frame.card(
                    "Not measured yet",
                    Markup("How far answers are off is measured by {}; then this page shows it.").format(
                        frame.mono(f"dbanon evaluate {record.release or record.run_id}")
                    ),
                )
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
            f"Random squares at random times, {evaluation.queries} for each size. How far it is off is given in "
            "percent of the mean "
            "truth, with intervals that hold it nine times in ten."
        )
        notes = [frame.card("Notes on these figures", *evaluation.notes)] if evaluation.notes else []
        return frame.section(
            "How far off are answers?",
            frame.columns(*blocks),
            *notes,
            table,
            note="held against true positions: private",
            lead=lead,
        )

    def errors(self, evaluation: Evaluation) -> Markup:
        """Draw how far counts are off by the size of the area."""
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
                lines.append(charts.Line(name=name, points=points, kind="private", dashed=asked == "span"))
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
            private=True,
        )
        return frame.block(
            "By the size of the area",
            frame.picture(
                drawn,
                Markup('<b class="is-private">Private.</b> How far counts are off, in percent of the mean truth.'),
            ),
        )

    def asked(self, evaluation: Evaluation) -> Markup:
        """Draw some of the questions with the truth."""
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
                label=self._question(questions, q),
                low=answers.at_least[q],
                high=answers.at_most[q],
                dot=answers.expected[q],
                true=true[q],
            )
            for q in chosen
        ]
        if not rows:
            return Markup("")
        said = "; ".join(f"{r.label}: {r.low:,.0f} to {r.high:,.0f}, true {r.true or 0:,.0f}" for r in rows)
        drawn = charts.ranges(
            "asked",
            "Questions with the truth",
            f"Private. {said}.",
            rows,
            charts.axis(max(r.high for r in rows), name="people in the square"),
            private=True,
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

    def _question(self, questions: Questions, q: int) -> str:
        at = datetime.fromtimestamp(questions.since[q], self.zone)
        return f"{charts.metres(questions.side_m[q])}, {at:%H:%M}"


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
