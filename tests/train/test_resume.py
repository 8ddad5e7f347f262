"""Interrupted equals uninterrupted: parameters, optimizer, counters and losses, bit for bit."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from needlex.checkpoint.config import CheckpointConfig
from needlex.checkpoint.store import CheckpointError, Store, folder, saved_steps
from needlex.config import to_dict
from needlex.precision import named
from needlex.sharding import MeshConfig
from needlex.train.config import TrainConfig
from tests.train.runs import bits, interrupted, metrics, prepared, run, small_config, stop_at

ROOT = Path(__file__).parents[2]
KINDS: dict[str, dict[str, Any]] = {
    "packing and micro-batches": {"optim__accumulate": 2},
    "padding": {"data__packing": False},
}


def losses(config: TrainConfig) -> list[tuple[Any, ...]]:
    """What a run wrote about itself, without the clock."""
    kept = [{k: v for k, v in line.items() if k != "train/tokens_per_second"} for line in metrics(config)]
    return [tuple(line.items()) for line in kept]


def points(config: TrainConfig) -> list[tuple[int, str]]:
    return [(line["step"], key) for line in metrics(config) for key in line if key != "step"]


@pytest.mark.parametrize(
    "kind", [k if k.startswith("packing") else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]
)
def test_interrupted_equals_uninterrupted(tmp_path, kind):
    """With dropout, and contrastive pairs on every second update."""
    changes: dict[str, Any] = {"model__dropout": 0.2, **KINDS[kind]}
    whole = small_config(tmp_path, "whole", **changes)
    parts = small_config(tmp_path, "parts", **changes)
    number = signal.SIGTERM if kind == "padding" else signal.SIGINT
    a, b = run(whole), interrupted(parts, 3, number)
    assert b.summary["resumed_from"] == 3
    assert int(b.state.step) == whole.steps and a.summary["finished"] and b.summary["finished"]
    assert bits(a.state) == bits(b.state)
    assert losses(whole) == losses(parts)
    assert [line["step"] for line in metrics(parts) if "loss/contrastive" in line] == [2, 4, 6]
    assert len(set(points(parts))) == len(points(parts))  # D12
    assert a.summary["validation"] == b.summary["validation"]


@pytest.mark.slow
def test_a_broken_newest_checkpoint_costs_steps_and_no_bit(tmp_path):
    """D6 from end to end: the run falls back, says so, and cuts what its lost future had written."""
    whole = small_config(tmp_path, "whole", data__packing=False, eval_every=4)
    parts = dataclasses.replace(whole, run_dir=str(tmp_path / "parts"), checkpoint=CheckpointConfig(every=2))
    a = run(whole)
    first = run(parts, stop_at(4))
    assert (first.summary["steps"], saved_steps(parts.run_dir)) == (4, [2, 4])
    shutil.rmtree(folder(parts.run_dir) / "4" / "state")
    said: list[str] = []
    b = run(dataclasses.replace(parts, resume=True), say=said.append)
    assert b.summary["resumed_from"] == 2
    assert "step 4 cannot be read" in "\n".join(said)
    assert bits(a.state) == bits(b.state)
    assert losses(whole) == losses(parts)
    assert saved_steps(parts.run_dir) == [2, 4, 6]

    # A finished run has nothing left to do, and says where it is.
    before = losses(parts)
    again = run(dataclasses.replace(parts, resume=True))
    assert (again.summary["steps"], again.summary["finished"]) == (6, True)
    assert (bits(again.state), losses(parts)) == (bits(a.state), before)

    # With no readable step there is no silent start from nothing.
    for step in (2, 4, 6):
        shutil.rmtree(folder(parts.run_dir) / str(step) / "state")
    with pytest.raises(CheckpointError, match=r"step 6 .*step 4 .*step 2 "):
        run(dataclasses.replace(parts, resume=True))


def test_a_run_that_saved_nothing_starts_again(tmp_path):
    config = small_config(tmp_path, steps=2, data__packing=False)
    Path(config.run_dir).mkdir()
    prepared(config)
    (Path(config.run_dir) / "metrics.jsonl").write_text('{"step": 1, "loss/total": 9}\n{"step": 2, "lo')
    said: list[str] = []
    result = run(dataclasses.replace(config, resume=True), say=said.append)
    assert "no checkpoint" in "\n".join(said) and "from the start" in "\n".join(said)
    assert result.summary["resumed_from"] == 0
    assert [line["step"] for line in metrics(config) if "loss/total" in line] == [1, 2]


@pytest.mark.slow
def test_another_number_of_devices_goes_on(tmp_path):
    """D5 from end to end: four devices, then one. Sums are added in another order, so not bit for bit."""
    whole = small_config(tmp_path, "whole", data__packing=False, steps=4, eval_every=2)
    parts = small_config(
        tmp_path, "parts", data__packing=False, steps=4, eval_every=2, mesh=MeshConfig(data=4)
    )
    a = run(whole)
    run(parts, stop_at(2))
    b = run(dataclasses.replace(parts, mesh=MeshConfig(data=1), resume=True))
    assert (b.summary["resumed_from"], b.summary["finished"]) == (2, True)
    pairs = zip(jax.tree.leaves(a.state.params), jax.tree.leaves(b.state.params), strict=True)
    apart = np.concatenate([np.abs(np.asarray(x) - np.asarray(y)).ravel() for x, y in pairs])
    # Adam moves by its rate whatever the size of a gradient: where one is all rounding, the sign may differ.
    assert np.mean(apart > 2e-5) < 1e-3 and apart.max() < 1e-3


def start(config: TrainConfig, *flags: str) -> subprocess.Popen[str]:
    path = Path(config.run_dir).with_suffix(".json")
    path.write_text(json.dumps(to_dict(config)))
    command = [sys.executable, "-m", "needlex.train", "--config", str(path), *flags]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ}, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.slow
def test_sigterm_to_a_process_saves_exits_with_0_and_resumes(tmp_path):
    """From outside and at any moment: the step in hand is finished, saved, and continued bit for bit."""
    whole, parts = (small_config(tmp_path, name, steps=40, eval_every=40) for name in ("whole", "parts"))
    process = start(parts)
    lines = Path(parts.run_dir) / "metrics.jsonl"
    while process.poll() is None and not (lines.is_file() and lines.read_text().count("\n") >= 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == 0, err
    (stopped,) = saved_steps(parts.run_dir)
    assert 2 <= stopped < 40
    assert f"SIGTERM: saved step {stopped}; continue with --resume" in out

    out, err = start(parts, "--resume", "--json").communicate()
    summary = json.loads(out.splitlines()[-1])
    assert (summary["resumed_from"], summary["steps"], summary["finished"]) == (stopped, 40, True)
    assert f"resumed {parts.run_dir} at step {stopped} of 40" in out

    result = run(whole)
    assert losses(whole) == losses(parts)
    store = Store(parts.run_dir, parts.checkpoint, named("float32"))
    data = prepared(dataclasses.replace(parts, resume=True))[1].batches()
    _, params, rest = store.restore(result.state.params, result.state._replace(params=None), data)
    store.close()
    assert bits(rest._replace(params=params)) == bits(result.state)
