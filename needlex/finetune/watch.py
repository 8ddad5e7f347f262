"""Watching a fine-tuning: call F1 on rows at every validation, the best weights kept, an end when the loss rises."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from needlex.data.config import DataConfig
from needlex.data.tokenizer import Tokenizer
from needlex.decode.engine import Engine
from needlex.decode.predict import predict
from needlex.eval.metrics import score
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Example
from needlex.train.loop import Moment, Seen
from needlex.train.samples import sample_calls

LOG = "validations.jsonl"


def call_f1(
    model: Seq2Seq, rows: Sequence[Example], tokenizer: Tokenizer, data: DataConfig
) -> dict[str, float]:
    """Name F1, call F1 and exact match of constrained answers to `rows`; empty without rows."""
    if not rows:
        return {}
    requests = [(e.query, e.tools) for e in rows]
    answers = predict(
        Engine(model), tokenizer, requests, data.render, 4 * data.max_encoder, 2 * data.max_decoder
    )
    report = score(rows, [a.text for a in answers], [a.error for a in answers])
    values = {"name_f1": report.name_f1, "call_f1": report.call_f1, "exact_match": report.exact_match}
    return {k: float(v) for k, v in values.items() if v is not None}


class Watch:
    """The hook of a fine-tuning run. What it knows lies in the run directory, so that a resumed run goes on knowing it."""

    def __init__(
        self, run_dir: str | Path, rows: Sequence[Example], cards: Sequence[Example], tokenizer: Tokenizer,
        data: DataConfig, patience: int | None, keep: Callable[[Moment], None], say: Callable[[str], None], start: int = 0,
    ):  # fmt: skip
        """`rows` are answered at each validation, `cards` are shown; `keep` writes the weights of the best one.

        What was written after step `start` is forgotten: the run passes there again.
        """
        self._path = Path(run_dir) / LOG
        self._rows, self._cards, self._tokenizer, self._data = rows, cards, tokenizer, data
        self._patience, self._keep, self._say = patience, keep, say
        self.log: list[dict[str, float]] = []
        """Step, loss and F1 of each validation."""
        if self._path.is_file():
            known = [json.loads(line) for line in self._path.read_text().splitlines()]
            self.log = [k for k in known if k["step"] <= start]
            self._write()

    @property
    def best(self) -> dict[str, float] | None:
        """The validation with the lowest loss."""
        return min(self.log, key=lambda v: v["loss"] if math.isfinite(v["loss"]) else math.inf, default=None)

    def __call__(self, moment: Moment) -> Seen:
        step, model = moment.step, moment.model
        scores = call_f1(model, self._rows, self._tokenizer, self._data)
        self.log.append({"step": step, "loss": moment.validation["loss"], **scores})
        best = self.best
        if best is self.log[-1]:
            self._keep(moment)
        self._write()
        if scores:
            self._say(
                f"step {step}: "
                + ", ".join(f"{k} {v:.3f}" for k, v in scores.items())
                + f" ({len(self._rows)} rows)"
            )
        card = sample_calls(model, self._cards, self._tokenizer, self._data)
        since = len(self.log) - 1 - self.log.index(best) if best is not None else 0
        stop = None
        if best is not None and self._patience is not None and since >= self._patience:
            stop = f"the validation loss has not fallen for {since} validations; the weights of step {best['step']:.0f} are kept"
        return Seen({"sample calls": card}, {f"validation/{k}": v for k, v in scores.items()}, stop)

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(json.dumps(v) + "\n" for v in self.log))
