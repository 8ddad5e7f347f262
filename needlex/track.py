"""Where the numbers of a run go: TensorBoard, metrics.jsonl, Weights & Biases."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrackConfig:
    """Outputs besides metrics.jsonl, which is always written."""

    tensorboard: bool = True
    """Write TensorBoard events to `run_dir/tensorboard`."""
    wandb: bool = False
    """Also log to Weights & Biases (needs the extra `needlex[wandb]`)."""
    wandb_project: str = "needlex"


class Tracker:
    """Writes scalars and text of one run. Open it after a restore: what lies beyond `step` is from a lost future."""

    def __init__(
        self,
        run_dir: str | Path,
        config: TrackConfig,
        step: int = 0,
        describe: Mapping[str, Any] | None = None,
    ):
        """`step` is where the run starts or resumes; later points of an earlier try are purged.

        **Raises:** `ValueError` when Weights & Biases is asked for and not installed.
        """
        run_dir = Path(run_dir)
        self._wandb = _start_wandb(config, run_dir, describe) if config.wandb else None
        path = run_dir / "metrics.jsonl"
        _cut(path, step)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._board = None
        if config.tensorboard:
            from tensorboardX import SummaryWriter

            self._board = SummaryWriter(str(run_dir / "tensorboard"), purge_step=step + 1)

    def scalars(self, step: int, values: Mapping[str, float], files_only: bool = False) -> None:
        """Numbers of one step; `files_only` leaves metrics.jsonl out (many numbers of little interest there)."""
        if not files_only:
            plain = {k: v if math.isfinite(v) else None for k, v in values.items()}
            self._file.write(json.dumps({"step": step, **plain}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        if self._wandb is not None:
            self._wandb.log(dict(values), step=step)

    def text(self, step: int, name: str, text: str) -> None:
        """A text card (Markdown)."""
        if self._board is not None:
            self._board.add_text(name, text, step)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def _cut(path: Path, step: int) -> None:
    """Drop the lines after `step`, and a half-written last one."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _start_wandb(config: TrackConfig, run_dir: Path, describe: Mapping[str, Any] | None):
    try:
        import wandb  # type: ignore[import-not-found]
    except ImportError:
        raise ValueError(
            "track.wandb is on but wandb is not installed; pip install 'needlex[wandb]' or turn it off"
        ) from None
    return wandb.init(
        project=config.wandb_project, dir=str(run_dir), config=dict(describe or {}), resume="allow"
    )
