"""Ctrl-C and SIGTERM as a polite request: finish the step, save, exit 0."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopRequest:
    """Context in which SIGTERM and the first Ctrl-C only set a flag; a second Ctrl-C interrupts at once.

    Poll it at every step boundary, in validation too.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.reason: str | None = None
        self._before: dict[int, object] = {}

    def __bool__(self) -> bool:
        return self.reason is not None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in self._SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.reason is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.reason = signal.Signals(number).name
