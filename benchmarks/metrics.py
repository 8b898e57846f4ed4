"""What it costs to count the truth for the questions of an evaluation, beside plain NumPy.

    .venv/bin/python -m benchmarks.metrics [--people 2000000] [--moments 24] [--queries 400]

Each way runs in a process of its own, which first compiles for a small input. NumPy answers one question in twenty, and
is taken to need twenty times as long for all; its answers are compared.
"""

import argparse
import time

import numpy as np

from benchmarks import _measure
from dbanon.metrics.questions import count_true_answers, draw_questions
from dbanon.results.figures import Movements, Questions

TOWN_M = 12_000.0
ONE_IN = 20


def make_town(people: int, moments: int) -> Movements:
    """People at random places of a town, anew each hour; those in the middle are more."""
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(people), moments)
    x, y = (TOWN_M * rng.beta(2, 2, len(person)) for _ in range(2))
    t = np.tile(3600.0 * np.arange(moments), people)
    return Movements(person=person, t=t, x=x, y=y)


def make_questions(moments: int, queries: int) -> Questions:
    return draw_questions(
        np.random.default_rng(2), box=(0, 0, TOWN_M, TOWN_M), moments=3600.0 * np.arange(moments),
        spans=np.empty((0, 2)), queries=queries,
    )  # fmt: skip


def take_part(questions: Questions, every: int) -> Questions:
    return Questions(**{name: values[::every] for name, values in vars(questions).items()})


def count_plainly(movements: Movements, questions: Questions) -> list[int]:
    """Go through all positions for each question."""
    counts = []
    for side, left, low, at in zip(questions.side_m, questions.x, questions.y, questions.since, strict=True):
        near = (movements.t == at) & (movements.x >= left) & (movements.x <= left + side)
        near &= (movements.y >= low) & (movements.y <= low + side)
        counts.append(len(np.unique(movements.person[near])))
    return counts


def run(way: str, people: int, moments: int, queries: int) -> None:
    """Answer in this process; prints seconds, those of the CPU, and a sum to compare."""
    questions = make_questions(moments, queries)
    count_true_answers(make_town(10, moments), questions)
    data = make_town(people, moments)
    began, cpu = time.perf_counter(), time.process_time()
    if way == "dbanon":
        answers = count_true_answers(data, questions)[::ONE_IN]
    else:
        answers = np.array(count_plainly(data, take_part(questions, ONE_IN)))
    times = 1 if way == "dbanon" else ONE_IN
    seconds = [times * (now - then) for now, then in ((time.perf_counter(), began), (time.process_time(), cpu))]
    print(*(f"{value:.1f}" for value in seconds), int(answers.sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=2_000_000)
    parser.add_argument("--moments", type=int, default=24)
    parser.add_argument("--queries", type=int, default=400, help="of each of five sides")
    parser.add_argument("--way", choices=["dbanon", "numpy"])
    options = parser.parse_args()
    size = (options.people, options.moments, options.queries)
    if options.way:
        run(options.way, *size)
        return
    print(f"{size[0]:,} people x {size[1]} moments, {5 * size[2]:,} squares")
    sums = []
    for way in ("dbanon", "numpy"):
        names = zip(("--people", "--moments", "--queries"), map(str, size), strict=True)
        cost = _measure.run_python("-m", "benchmarks.metrics", "--way", way, *(word for pair in names for word in pair))
        seconds, cpu, total = cost.printed.split()
        sums.append(total)
        data_mb = 32 * size[0] * size[1] / 1e6
        print(f"{way:8} {seconds:>8} s, {cpu} of CPU {cost.client_mb:8.0f} MB, {data_mb:.0f} of them data", flush=True)
    if len(set(sums)) > 1:
        raise SystemExit("The answers differ.")


if __name__ == "__main__":
    main()
