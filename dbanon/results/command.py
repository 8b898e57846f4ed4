"""Writes commands that pages and reports tell their readers to type, quoted for a shell."""

import shlex
from collections.abc import Mapping
from typing import Any


def format_run_command(
    method: str,
    dataset: str,
    algorithm: str | None,
    params: Mapping[str, Any],
    publish: str | None = None,
    *,
    replace: bool = False,
) -> str:
    """Write the command that computes a run again; with `publish` it publishes it, in place of a live one or not.

    Parameters that are None were not given, and are left out.
    """
    words = ["dbanon", "run", method, "--dataset", dataset]
    words += ["--algorithm", algorithm] if algorithm else []
    for name, value in params.items():
        words += ["-p", f"{name}={quote_option(value)}"] if value is not None else []
    words += ["--publish", publish] if publish else []
    words += ["--replace"] if publish and replace else []
    return shlex.join(words)


def quote_option(value: Any) -> str:
    """Write a parameter's value as one types it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
