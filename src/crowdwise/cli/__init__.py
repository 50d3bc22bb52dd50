"""The `crowdwise` command: reads options, calls the other rooms, shows what they found."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

# What the system says where memory ends: of threads, and of libraries that are loaded.
OUT_OF_MEMORY = ("can't start new thread", "failed to map segment from shared object", "Cannot allocate memory")
OK, BUG, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 2 for bad input or usage, 1 for a bug, 128 + the signal if stopped.

    Parameters
    ----------
    arguments
        What follows `crowdwise` on the command line; by default the process's own.
    """
    from crowdwise.cli.stop_signals import Stopped, raise_on_stop_signals

    _repair_standard_streams()
    try:
        from crowdwise.cli.app import app  # takes a while, in which one may be interrupted

        _check_arguments(sys.argv[1:] if arguments is None else arguments)
        with raise_on_stop_signals(), warnings.catch_warnings():
            warnings.showwarning = _print_warning
            code = app(args=arguments, prog_name="crowdwise", standalone_mode=False)
            sys.stdout.flush()
    except Stopped as stop:
        _print_message(str(stop))
        return stop.code
    except SystemExit as stop:  # rich ends so, with 1, when a reader goes away (`| head`)
        return PIPE_CLOSED if stop.code == 1 else stop.code if isinstance(stop.code, int) else BUG
    except BaseException as error:
        hidden = _find_stop(error)
        if isinstance(hidden, Stopped):
            _print_message(str(hidden))
            return hidden.code
        return _report_failure(hidden or error, sys.argv[1:] if arguments is None else arguments)
    return code if isinstance(code, int) else OK


def _find_stop(error: BaseException) -> BaseException | None:
    """What asked the command to stop, if that is behind an error: a library that is being imported hides it."""
    from crowdwise.cli.stop_signals import Stopped

    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, Stopped | KeyboardInterrupt):
        behind = behind.__cause__ or behind.__context__
    return behind


def _repair_standard_streams() -> None:
    """Stand in for streams that the caller closed; write what an encoding lacks as an escape, not as an error."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        # python -u, where what does not fit on a full disk is left out without an error
        raw = io.FileIO(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), sys.stdout.encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuse words that hold bytes which are no text: Arrow takes no such name of a file."""
    from crowdwise.labels.errors import InputError, quote

    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            try:
                os.fsencode(word).decode()
                remedy = "Python does not read UTF-8 in this locale: set PYTHONUTF8=1 or LC_ALL=C.UTF-8"
            except UnicodeError:
                remedy = "It is not UTF-8: rename the file, or write the name otherwise"
            raise InputError(f"{quote(word)} on the command line is no text. {remedy}.") from error


def _print_warning(message: Warning | str, *_where: object, **_more: object) -> None:
    """Say a warning in one line, without the place in the code that it comes from; of others' the first line."""
    ours = type(message).__module__.startswith("crowdwise.")
    _print_message(str(message) if ours else next(iter(str(message).splitlines()), ""))


def _report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Say in one line what went wrong, with a command for each way on if there are several; give the exit code."""
    if os.environ.get("CROWDWISE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _redirect_to_null(sys.stdout)
        return PIPE_CLOSED
    message, code = _explain_error(error)
    _print_message(message)
    for meaning, words in _list_choices(error):
        _print_message(meaning, begin="  ")
        _print_message(_extend_command(arguments, words), begin="    ")
    return code


def _explain_error(error: BaseException) -> tuple[str, int]:
    from crowdwise.labels.errors import CrowdwiseError

    if isinstance(error, CrowdwiseError):
        return str(error), BAD_INPUT
    if hasattr(error, "format_message"):  # a usage error of typer's, whichever click it builds on
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "crowdwise"
        message = error.format_message()
        stop = "" if message.endswith((".", "?")) else "."
        return f"{message}{stop} Try '{command} --help'.", BAD_INPUT
    if isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY):
        return "There is not enough memory for these labels. Use a larger machine or fewer labels.", BAD_INPUT
    if isinstance(error, OSError):
        _redirect_to_null(sys.stdout)
        unnamed = (
            "A file or the working folder is gone: " if error.errno == errno.ENOENT else "Writing the output failed: "
        )
        where = f"{error.filename}: " if error.filename else unnamed
        return f"{where}{error.strerror or error}.", BAD_INPUT
    if isinstance(error, Warning):
        return f"{error} (A warning, which -W error or PYTHONWARNINGS makes an error.)", BAD_INPUT
    bug = f"This is a bug in crowdwise, not in your data: {type(error).__name__}: {error}."
    return f"{bug} Please report it; CROWDWISE_DEBUG=1 before the same command shows the traceback.", BUG


def _list_choices(error: BaseException) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The ways on, where the input can be read in several: what each means, and the words to add."""
    from crowdwise.labels.errors import UnclearInputError

    return error.choices if isinstance(error, UnclearInputError) else ()


def _extend_command(arguments: Sequence[str], more: Sequence[str]) -> str:
    """The same command with some words more, to copy."""
    from crowdwise.cli.terminal_names import quote_command

    return quote_command("crowdwise", *arguments, *more)


def _print_message(message: str, begin: str = "crowdwise: ") -> None:
    from crowdwise.cli.terminal_names import escape_unprintable

    try:
        print(f"{begin}{escape_unprintable(message)}", file=sys.stderr, flush=True)
    except OSError:
        _redirect_to_null(sys.stderr)


def _redirect_to_null(stream: object) -> None:
    """Point a stream that cannot be written at nothing, so that Python's last flush does not fail as well."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass
