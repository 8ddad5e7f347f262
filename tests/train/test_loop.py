"""The loop around the updates: validation, signals, numbers on their way out, errors that stop it."""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import threading
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from needlex.checkpoint.store import saved_steps
from needlex.data.encode import encode_example
from needlex.data.loader import validation_batches
from needlex.data.sources import DataError
from needlex.optim.schedule import make_schedule
from needlex.precision import named
from needlex.sharding import MeshConfig, build_mesh
from needlex.train import loop
from needlex.train.config import TrainConfig
from needlex.train.loop import Result, gate_values, validate
from needlex.train.preempt import StopRequest
from needlex.train.setup import Prepared, prepare
from needlex.train.step import make_evaluate
from tests.train.runs import metrics, prepared, rows, run, small_config, trained, write_rows


@cache
def validated(folder: Path) -> tuple[TrainConfig, Prepared, Result]:
    """A run of two updates whose validation set is 13 rows of its own."""
    path = write_rows(folder / "validation.jsonl", rows(73)[60:])
    config = small_config(folder, steps=2, data__packing=False, data__validation=(path,))
    config, data = prepared(config)
    return config, data, loop.train(config, data, say=lambda _: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("validated")


@pytest.mark.parametrize("batch_size", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 7)), 32])
def test_validation_is_the_mean_over_all_tokens_of_all_rows(folder, batch_size):
    """D9, against a forward pass of each row alone, in float64 from its logits on."""
    config, data, result = validated(folder)
    model = result.model
    arrays, static = eqx.partition(model, eqx.is_array)
    forward = jax.jit(lambda a, e, d: eqx.combine(a, static)(e, d))
    total, correct, count = 0.0, 0, 0
    for example in data.validation_rows:
        row = encode_example(example, data.tokenizer, config.data.render, 96, 80)
        padded = [np.pad(x, (0, n - len(x))) for x, n in ((row.encoder, 96), (row.decoder, 80))]
        logits = np.asarray(forward(arrays, *padded), np.float64)[: len(row.targets)]
        logits -= logits.max(axis=1, keepdims=True)
        losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(row.targets)), row.targets]
        total, count = total + losses.sum(), count + len(losses)
        correct += (logits.argmax(axis=1) == row.targets).sum()
    changed = dataclasses.replace(config.data, batch_size=batch_size)
    batches = validation_batches(data.validation_rows, changed, data.tokenizer)
    mesh = build_mesh(MeshConfig())
    evaluate = make_evaluate(static, config.loss, named("float32"), mesh)
    found = validate(evaluate, batches, (arrays,), mesh, StopRequest(), len(data.validation_rows))
    assert found is not None
    assert found["rows"] == 13
    assert found["loss"] == pytest.approx(total / count, rel=1e-5)
    assert found["accuracy"] == pytest.approx(correct / count, rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-4)
    assert found["loss"] == pytest.approx(result.summary["validation"]["loss"], rel=1e-5)


def test_a_stop_in_validation_is_honoured_and_saves(tmp_path, monkeypatch):
    """D11: the rest of the validation is left, the step is saved, nothing is said about half a validation."""
    calls = 0
    make = loop.make_evaluate

    def counted(*args: Any):
        evaluate = make(*args)

        def wrapped(*inputs: Any):
            nonlocal calls
            calls += 1
            signal.raise_signal(signal.SIGTERM)
            return evaluate(*inputs)

        return wrapped

    monkeypatch.setattr(loop, "make_evaluate", counted)
    path = write_rows(tmp_path / "validation.jsonl")
    config = small_config(
        tmp_path, steps=9, eval_every=2, data__packing=False, data__validation=(path,), data__buckets=1
    )
    said: list[str] = []
    result = run(config, on_eval=pytest.fail, say=said.append)
    assert calls == 1
    assert (result.summary["steps"], result.summary["validation"]) == (2, None)
    assert saved_steps(config.run_dir) == [2]
    assert said[-1] == "SIGTERM: saved step 2; continue with --resume"
    assert not any("validation/loss" in line for line in metrics(config))


def test_a_second_ctrl_c_interrupts_and_handlers_are_given_back():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        assert not stop
        signal.raise_signal(signal.SIGTERM)
        assert stop and stop.reason == "SIGTERM"
        signal.raise_signal(signal.SIGTERM)  # a scheduler may ask twice
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.reason == "SIGINT"


def test_outside_the_main_thread_signals_are_left_alone():
    before, found = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with StopRequest() as stop:
            found.append((bool(stop), signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, before)]


def test_signals_wait_until_the_checkpoint_is_on_disk(tmp_path, monkeypatch):
    """A scheduler that asks again while the last checkpoint is written must not cut it short."""
    close = loop.Store.close

    def interrupted(store):
        signal.raise_signal(signal.SIGTERM)
        close(store)

    monkeypatch.setattr(loop.Store, "close", interrupted)
    config = small_config(tmp_path, steps=1, data__packing=False)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the signal went past the loop"))
    try:
        assert run(config).summary["finished"]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert saved_steps(config.run_dir) == [1]


def test_the_numbers_of_a_run(capsys):
    """Every promised tag is in the TensorBoard events, at its steps, and the same in metrics.jsonl."""
    folder = trained()
    board = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0}).Reload()
    scalars = {tag: {e.step: e.value for e in board.Scalars(tag)} for tag in board.Tags()["scalars"]}
    every = set(range(1, 7))
    for tag in (
        "loss/total", "loss/weighted_ce", "loss/ce", "loss/z", "train/perplexity", "train/accuracy",
        "train/gradient_norm", "train/tokens_per_second", "lr/adamw", "lr/muon", "skipped",
    ):  # fmt: skip
        assert scalars[tag].keys() == every, tag
    assert scalars["loss/contrastive"].keys() == {2, 4, 6}
    for tag in ("loss", "weighted_loss", "perplexity", "accuracy", "rows"):
        assert scalars[f"validation/{tag}"].keys() == {3, 6}
    gates = {tag for tag in scalars if tag.startswith("gates/")}
    assert gates == {f"gates/{g}/0" for g in (
        "encoder.layers.gate", "decoder.layers.self_gate", "decoder.layers.cross_gate",
    )}  # fmt: skip
    assert all(scalars[g].keys() == {3, 6} and 0.3 < scalars[g][6] < 0.7 for g in gates)

    config = small_config(folder.parent, "trained")
    schedule = make_schedule(config.optim, 6)
    for step in every:
        share = float(schedule(jnp.array(step)))
        assert scalars["lr/adamw"][step] == pytest.approx(config.optim.lr * share)
        assert scalars["lr/muon"][step] == pytest.approx(config.optim.muon_lr * share)
    assert 0 < scalars["loss/ce"][1] < 1.5 * math.log(340)

    (card, last) = board.Tensors("sample calls/text_summary")
    assert (card.step, last.step) == (3, 6)
    text = last.tensor_proto.string_val[0].decode().splitlines()
    assert text[:2] == ["| query | model | expected | |", "| --- | --- | --- | --- |"]
    assert "ring at" in text[2] or "dim lamp" in text[2] or "how is" in text[2]

    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    written = {(line["step"], k): v for line in lines for k, v in line.items() if k != "step"}
    assert len(written) == sum(len(line) - 1 for line in lines)
    shown = {(s, tag): v for tag, found in scalars.items() if tag not in gates for s, v in found.items()}
    assert written.keys() == shown.keys()
    assert all(written[k] == pytest.approx(shown[k], rel=1e-6) for k in written)


def test_the_run_directory_is_complete():
    folder = trained()
    assert sorted(p.name for p in folder.iterdir()) == [
        "checkpoints", "config.json", "metrics.jsonl", "tensorboard", "tokenizer.model",
    ]  # fmt: skip
    assert saved_steps(folder) == [6]


def test_gates_are_shown_by_layer(folder):
    _, _, result = validated(folder)
    layers = result.state.params.encoder.layers
    params = eqx.tree_at(lambda p: p.encoder.layers.gate, result.state.params, layers.gate * 0 + 2.0)
    found = gate_values(params)
    assert found["gates/encoder.layers.gate/0"] == pytest.approx(1 / (1 + math.exp(-2)))
    assert len(found) == 3


def test_devices_must_share_the_batch(tmp_path):
    config = small_config(tmp_path, data__batch_size=6, mesh=MeshConfig(data=-1))
    with pytest.raises(
        ValueError, match=r"data\.batch_size 6 cannot be split over 8 devices \(mesh\.data -1\)"
    ):
        run(config)
    config = small_config(tmp_path, "other", data__batch_size=16, mesh=MeshConfig(data=16))
    with pytest.raises(ValueError, match=r"mesh\.data is 16 but jax sees 8 device\(s\).*--devices 16"):
        run(config)


def test_updates_are_counted_from_epochs(tmp_path):
    """60 rows, 1 held out: 59 in batches of 4 are 15 updates an epoch, of 2 x 4 half as many."""
    for changes, wanted in [({}, 15), ({"epochs": 3}, 44)]:
        config = small_config(tmp_path, data__packing=False, steps=None, **changes)
        assert prepared(dataclasses.replace(config, run_dir=str(tmp_path / str(wanted))))[1].steps == wanted
    _, data = prepared(small_config(tmp_path, "packed", steps=None, epochs=10, optim__accumulate=2))
    stream = data.batches()
    seen = sum(int(b.encoder_segments.max(axis=-1).sum()) for b in (next(stream) for _ in range(data.steps)))
    assert seen == pytest.approx(590, rel=0.1)


def test_data_that_fits_nothing_leaves_no_run_behind(tmp_path):
    config = small_config(tmp_path, data__max_encoder=8)
    with pytest.raises(DataError, match=r"none of 59 rows fits data\.max_encoder 8"):
        prepare(config, lambda _: None)
    assert not Path(config.run_dir).exists()


def test_overwrite_keeps_the_old_run_until_the_new_one_can_start(tmp_path):
    config = small_config(tmp_path)
    prepared(config)
    kept = Path(config.run_dir) / "metrics.jsonl"
    kept.write_text("{}\n")
    with pytest.raises(DataError):
        prepared(small_config(tmp_path, data__max_encoder=8, overwrite=True))
    assert kept.exists()
    prepared(dataclasses.replace(config, overwrite=True))
    assert not kept.exists() and (Path(config.run_dir) / "config.json").is_file()
