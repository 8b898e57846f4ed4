"""Who may do what: `tests/db/rights.txt`, and in words of users the tasks about which its lines decide."""

import re
from pathlib import Path
from typing import NamedTuple

RIGHTS = Path(__file__).parent / "db" / "rights.txt"
ROLES = ("operator", "worker", "analyst", "nobody")


class Task(NamedTuple):
    """What a user wants to do.

    `decided_by` are lines of the file that a role needs beside those of its functions, and of a table the letter: a
    function that runs with the rights of its caller gives none.
    """

    words: str
    functions: str = ""
    commands: str = ""
    decided_by: tuple[str, ...] = ()


TASKS = (
    Task("Read releases, ask questions of them, write files, and pages for analysts", "", "export",
         ("view published.releases S",)),
    Task("See every release and run, write pages of releases and compare them", "release_card run_card",
         "releases card runs report compare", ("view dbanon.releases S", "view dbanon.runs S")),
    Task("See datasets, loads, jobs, workers and what is wrong", "", "datasets check job-list",
         ("view dbanon.datasets S", "table dbanon.load S", "view dbanon.jobs S", "view dbanon.health S")),
    Task("List methods, and choose one; print the version", "choose_method version", "methods",
         ("view dbanon.methods S", "table dbanon.trajectory S")),
    Task("Read the private data that were loaded", "", "",
         tuple(f"table dbanon.{one} S" for one in ("trajectory", "request", "site", "poi", "cell"))),
    Task("Write pages of runs, with the roles of an operator and a worker together", "", "",
         ("view dbanon.cloak S", "view published.releases S")),
    Task("Read rejected rows", "", "", ("table dbanon.quarantine S",)),
    Task("Read the audit", "", "", ("table dbanon.audit S",)),
    Task("Read which people are hidden together", "", "", ("table dbanon.membership S", "table dbanon.record S")),
    Task("Load data, generate data",
         "import_trajectories import_requests import_quasi_identifiers import_sites import_pois import_cells "
         "import_stations", "load import synth",
         tuple(f"table dbanon.{one} I" for one in ("trajectory", "request", "site", "poi", "cell", "quarantine"))),
    Task("Forget and remember people", "forget_subject remember_subject", "forget remember"),
    Task("Delete old data, loads, datasets and unpublished runs", "forget_before drop_load drop_dataset drop_run",
         "forget-before drop-load drop-dataset drop"),
    Task("Plan a run", "plan_run", "plan", ("function dbanon_internal.find_conflicts", "table dbanon.trajectory S")),
    Task("Submit and cancel runs, which a worker computes", "submit_run anonymize cancel_run", "submit run cancel",
         ("function dbanon_internal.insert_run", "table dbanon.trajectory S")),
    Task("Ask a worker to attack a run again", "verify_run", "verify"),
    Task("Compute runs and attack them", "", "worker sweep",
         ("table dbanon.membership I", "table dbanon.verification I", "function dbanon_internal.requeue_run")),
    Task("Measure how useful a run is", "", "evaluate", ("table dbanon.evaluation I", "table dbanon.membership S")),
    Task("Publish, and measure overlaps", "publish measure_overlap", "publish"),
    Task("Sign runs, as a member of the role that the policy names", "sign_run"),
    Task("Read the policy and signatures", "", "", ("table dbanon.policy S", "table dbanon.signature S")),
    Task("Withdraw and fold releases", "unpublish unpublish_part fold_release clear_withdrawn", "unpublish"),
    Task("Write pages with true positions", "", "",
         ("function dbanon_internal.note_page", "table dbanon.trajectory S")),
    Task("Add, change, plan, run and steer jobs", "add_job plan_job run_jobs steer_job",
         "job-add job-apply job-plan job-run job-pause job-resume job-retry job-skip job-remove",
         ("function dbanon_internal.write_job", "function dbanon_internal.claim_job")),
    Task("Confirm the history after a restore; upgrade", "confirm_history", "", ("table dbanon.installation U",)),
    Task("Change the policy", "", "", ("table dbanon.policy U",)),
)  # fmt: skip


def read_expected() -> dict[tuple[str, str], dict[str, str]]:
    """Read the file: for each (kind, name) what each role may do, as it is written there."""
    found = {}
    for line in RIGHTS.read_text().splitlines():
        words = re.split(r"\s{2,}", line.split("#")[0].strip())
        if words != [""]:
            kind, name = words[0].split(" ", 1)
            assert len(words) == 1 + len(ROLES), f"a line of rights.txt must have {1 + len(ROLES)} columns: {line}"
            assert (kind, name) not in found, f"{kind} {name} is in rights.txt twice"
            found[kind, name] = dict(zip(ROLES, words[1:], strict=True))
    return found


def may(role: str, task: Task) -> bool:
    """Whether the file lets a role do a task."""
    table = read_expected()
    lines = [("function", f"dbanon.{one}") for one in task.functions.split()]
    allowed = [table[line][role] == "call" for line in lines if line in table]
    for line in task.decided_by:
        kind, name, *letter = line.split()
        given = re.sub(r"\(.*?\)", "", table[kind, name][role]).split()
        allowed.append(given == ["call"] if kind == "function" else letter[0] in given)
    return all(allowed)
