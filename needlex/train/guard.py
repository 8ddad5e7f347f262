"""Watching a run: the first loss, and updates that are not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from needlex.train.step import UpdateInfo


class NonFiniteError(RuntimeError):
    """Too many updates in a row had non-finite gradients."""


def check_first_loss(ce: float, vocab_size: int, say: Callable[[str], None]) -> None:
    """Compare the first cross-entropy with that of a uniform guess, ln(V), and say what it means."""
    uniform = math.log(vocab_size)
    say(
        f"first loss {ce:.3f} nats a token; a uniform guess over {vocab_size} pieces is ln(V) = {uniform:.3f}"
    )
    # At start the tied embedding makes the model repeat its input: a little worse than uniform is expected.
    if not ce <= uniform + 4:  # NaN too
        say(
            f"warning: the first loss is {ce - uniform:.1f} nats above uniform: the forward pass, not the data, is suspect "
            "(wrong checkpoint, wrong tokenizer, a changed architecture)"
        )


class Guard:
    """Counts skipped updates and stops a run that makes nothing but them."""

    def __init__(self, leaf_names: Sequence[str], most: int, say: Callable[[str], None]):
        self._names, self._most, self._say = list(leaf_names), most, say

    def check(self, step: int, info: UpdateInfo) -> None:
        """Report a skipped update by the leaves at fault.

        **Raises:** `NonFiniteError` with a diagnosis after `most` in a row.
        """
        skipped, in_a_row = int(info.skipped), int(info.skipped_run)
        if not info.applied:  # the count alone would report the skips of before a resume again
            self._say(
                f"step {step}: update skipped, {self._diagnosis(info)} ({skipped} skipped so far, {in_a_row} in a row)"
            )
        if in_a_row >= self._most:
            raise NonFiniteError(
                f"{in_a_row} updates in a row were not finite, the last at step {step}: {self._diagnosis(info)}. The parameters are "
                "those before the first of them, and the last checkpoint is intact. Look for a learning rate that is too high "
                "(optim.lr, optim.muon_lr), a compute dtype that overflows (precision float16 or bfloat16; try float32) or bad data"
            )

    def _diagnosis(self, info: UpdateInfo) -> str:
        bad, stuck = (
            [n for n, ok in zip(self._names, np.asarray(found), strict=True) if not ok]
            for found in (info.finite, info.moves)
        )
        if bad:
            return "non-finite gradient in " + self._some(bad)
        if stuck:
            return (
                f"finite gradients became a non-finite update in {self._some(stuck)}: the optimizer's arithmetic, an epsilon or a "
                "scale that its dtype cannot hold (`python -m needlex.doctor` proves them)"
            )
        return "the loss or the gradient norm is not finite though every gradient is"

    def _some(self, names: list[str]) -> str:
        return ", ".join(names[:3]) + (
            f" and {len(names) - 3} more of {len(self._names)} leaves" if len(names) > 3 else ""
        )
