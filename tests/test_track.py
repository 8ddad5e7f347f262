"""Numbers of a run: one line and one point a step, also after a resume."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from needlex.track import TrackConfig, Tracker


def lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def board(run: Path) -> EventAccumulator:
    return EventAccumulator(str(run / "tensorboard")).Reload()


def points(run: Path, tag: str) -> list[tuple[int, float]]:
    return [(e.step, e.value) for e in board(run).Scalars(tag)]


def write(run: Path, steps: range, start: int, sign: float = 1.0) -> None:
    tracker = Tracker(run, TrackConfig(), start)
    for step in steps:
        tracker.scalars(step, {"loss": sign * step})
        tracker.text(step, "card", f"text {sign * step}")
    tracker.close()


def test_scalars_and_text_go_to_both(tmp_path):
    tracker = Tracker(tmp_path, TrackConfig())
    tracker.scalars(1, {"loss": 2.5, "rate": math.nan, "top": math.inf})
    tracker.scalars(1, {"gates/0": 0.5}, files_only=True)
    tracker.text(1, "card", "| a | b |")
    # A line is on disk when it is written: a killed run keeps its numbers.
    assert lines(tmp_path) == [{"step": 1, "loss": 2.5, "rate": None, "top": None}]
    tracker.close()
    found = board(tmp_path)
    assert sorted(found.Tags()["scalars"]) == ["gates/0", "loss", "rate", "top"]
    assert points(tmp_path, "gates/0") == [(1, 0.5)]
    (text,) = found.Tensors("card/text_summary")
    assert text.tensor_proto.string_val[0].decode() == "| a | b |"


@pytest.mark.parametrize("resumed_at", [0, 2])
def test_a_resume_cuts_the_lost_future(tmp_path, resumed_at):
    """D12: every step once, and after the cut only what the second try wrote."""
    write(tmp_path, range(1, 6), 0)
    events = tmp_path / "tensorboard"
    for path in events.iterdir():  # names hold the second in which they were opened
        path.rename(path.with_name(path.name.replace(".tfevents.1", ".tfevents.0")))
    write(tmp_path, range(resumed_at + 1, 5), resumed_at, -1.0)
    wanted = [(s, float(s if s <= resumed_at else -s)) for s in range(1, 5)]
    assert [(line["step"], line["loss"]) for line in lines(tmp_path)] == wanted
    assert points(tmp_path, "loss") == wanted
    # TensorBoard purges no text; of two cards at a step the later one is the valid one.
    cards = board(tmp_path).Tensors("card/text_summary")
    texts = {t.step: t.tensor_proto.string_val[0].decode() for t in cards}
    assert texts == {s: f"text {v}" for s, v in wanted} | {5: "text 5.0"}


def test_a_half_written_line_is_cut(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 1, "loss": 1}\nnull\n{"loss": 5}\n{"step": "x"}\n{"step": 2, "loss": 2}\n{"step": 3, "lo'
    )
    Tracker(tmp_path, TrackConfig(tensorboard=False), 2).close()
    assert [line["step"] for line in lines(tmp_path)] == [1, 2]
    assert not (tmp_path / "tensorboard").exists()


def test_missing_wandb_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match=r"track\.wandb is on but wandb is not installed.*needlex\[wandb\]"):
        Tracker(tmp_path, TrackConfig(wandb=True))
    assert not (tmp_path / "metrics.jsonl").exists()
