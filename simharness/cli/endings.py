"""SIGTERM and SIGHUP end a command as Ctrl-C does: nothing half-written stays behind, no process of it goes on (ruling C6)."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first of these signals. One that is ignored, as SIGHUP is below nohup, stays so."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield
        return
    heard = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """End; whoever asks again, as a session that closes does, must not end the tidying up."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
