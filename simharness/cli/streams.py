"""Standard output and standard error as the commands find them: closed, full, or with a reader that has gone (ruling C6)."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from typing import Any, Final, TextIO, cast

from simharness.core.errors import InputError

_NAME: Final = "(standard output)"


class Output:
    """Standard output that outlives its reader: whatever is written after that is lost, and the command goes on to its verdict."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.gone = False

    def write(self, text: str) -> int:
        """Write text.

        Raises:
            InputError: If the system refuses it for any other reason than that nobody reads.
        """
        with self._guarded():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what is buffered; raises as `write` does."""
        with self._guarded():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Be the stream in everything else."""
        return getattr(self._stream, name)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._forget()
        except OSError as error:
            self._forget()
            raise InputError(file=_NAME, field="(io)", rule=error.strerror or str(error)) from None

    def _forget(self) -> None:
        """Let what is still buffered, and all that follows, go nowhere: it must not be tried again at exit."""
        self.gone = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


@contextmanager
def guarded() -> Iterator[None]:
    """Put `Output` in the place of standard output.

    Raises:
        InputError: If standard output is closed, or cannot take what was written.
    """
    if sys.stderr is None:  # closed, as in `2>&-`
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # it stays open to the end
    if sys.stdout is None:
        raise InputError(file=_NAME, field="(io)", rule="it is closed; redirect it to a file or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that the terminal cannot show is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    with redirect_stdout(cast("TextIO", Output(sys.stdout))):
        yield


def complain(text: object) -> None:
    """Print to standard error, after what stands before it on standard output."""
    with suppress(OSError):  # nobody is left to be told
        if sys.stdout is not None:
            sys.stdout.flush()
        print(text, file=sys.stderr, flush=True)


def reader_is_gone() -> bool:
    """Tell whether nobody reads standard output any more."""
    return isinstance(sys.stdout, Output) and sys.stdout.gone
