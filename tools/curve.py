"""Picture of a run: training and validation loss over updates, from its metrics.jsonl.

`python tools/curve.py runs/tiny docs/curve.png`
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import tyro


@dataclass(frozen=True)
class Args:
    """Where from, where to."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    picture: tyro.conf.Positional[Path]
    """PNG to write."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    rows = [json.loads(line) for line in (args.run / "metrics.jsonl").read_text().splitlines()]
    figure, (loss, accuracy) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for axis, train, validation, label in (
        (loss, "loss/ce", "validation/loss", "cross-entropy, nats a token"),
        (accuracy, "train/accuracy", "validation/accuracy", "share of tokens predicted right"),
    ):
        for key, style in ((train, {"lw": 0.8, "alpha": 0.7}), (validation, {"marker": "o"})):
            points = [(r["step"], r[key]) for r in rows if key in r]
            if not points:
                raise SystemExit(f"{args.run}/metrics.jsonl has no {key!r}; was the run evaluated?")
            axis.plot(*zip(*points, strict=True), label=key, **style)
        axis.set(xlabel="update", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend()
    loss.set_yscale("log")
    figure.savefig(args.picture, dpi=110)
    print(f"{args.picture}: {len(rows)} lines of {args.run}")


if __name__ == "__main__":
    main()
