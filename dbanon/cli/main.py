"""The command line: parse, call, exit code. No logic. The commands are in `dbanon.cli`.

Exit codes: 0 done; 2 bad usage or parameter; 3 bad data; 4 infeasible; 5 refused by the attack; 128 + n stopped by
signal n (130 is Ctrl-C, 143 SIGTERM); 1 anything else.
"""

import json
import logging
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import typer

from dbanon.base.console import replace_stderr_line
from dbanon.base.errors import DbanonError, ParameterError
from dbanon.cli import datasets, db, jobs, loading, reading, runs, sweeping  # noqa: F401 - each adds its commands to the program
from dbanon.cli._shared import app, everywhere
from dbanon.cli._stopping import Stopping


def _hoist(arguments: list[str]) -> list[str]:
    """Move the options that are meant everywhere to the front, where Click looks for them; psql's own stay its own."""
    front: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--" or (argument == "psql" and rest[-1:] == ["db"]):
            rest += [argument, *waiting]
        elif argument in ("--json", "--debug") or argument.startswith("--dsn="):
            front.append(argument)
        elif argument == "--dsn":
            front += [argument, *(value for value in [next(waiting, None)] if value is not None)]
        else:
            rest.append(argument)
    return front + rest


def _demand_text(arguments: list[str]) -> None:
    """Refuse bytes that are no text: the system hands them on as lone surrogates, which no server or terminal takes."""
    if any(0xD800 <= ord(letter) <= 0xDFFF for argument in arguments for letter in argument):
        raise ParameterError(
            "Arguments must be UTF-8 text. Got one that is not. Rename the file or set a UTF-8 locale."
        )


def _fail_stopped(number: int | None) -> NoReturn:
    _fail("Interrupted. Unfinished work was undone. Run the command again.", 128 + (number or signal.SIGINT))


def _format_usage_error(error: typer.TyperException) -> str:
    """What the command line's parser says, with a pointer to the help of the command it was about."""
    message = " ".join((error.format_message() if hasattr(error, "format_message") else str(error)).split())
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dbanon"
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} See '{command} --help'."


def _fail(sentence: str, code: int) -> NoReturn:
    with suppress(OSError):  # the terminal may be closed
        if everywhere.debug:
            for line in traceback.format_exc().splitlines():
                replace_stderr_line(line)
        if everywhere.json:
            print(json.dumps({"error": sentence, "exit_code": code}))
        replace_stderr_line(f"dbanon: {sentence}")
    sys.exit(code)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; `arguments` are those of ``sys.argv`` by default, without the program's name."""
    argv = _hoist(sys.argv[1:] if arguments is None else arguments)
    everywhere.json, everywhere.debug = "--json" in argv, "--debug" in argv
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it logs what is reported as an error anyway
    stopping = Stopping()
    try:
        with stopping:
            _demand_text(argv)
            code = app(argv, prog_name="dbanon", standalone_mode=False)
            print(end="", flush=True)  # a closed pipe is noticed here, not after exit code 0
    except typer.TyperException as error:
        message = _format_usage_error(error)
        if message.startswith("Usage:"):  # called without a command: its help, not an error sentence
            print(error.format_message(), file=sys.stderr)
            sys.exit(2)
        _fail(message, 2)
    except (typer.Abort, KeyboardInterrupt):
        _fail_stopped(stopping.number)
    except DbanonError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _fail(
            f"dbanon failed, which is a defect ({type(error).__name__}). Run the command again with --debug, and "
            "report it.",
            1,
        )
    if stopping.number is not None:  # Typer makes an exit code of it
        _fail_stopped(stopping.number)
    sys.exit(code if isinstance(code, int) else 0)
