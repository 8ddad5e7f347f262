"""Whole fine-tunings: what they write, what answers, interrupted == uninterrupted, and what is refused untouched."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import needlex
from needlex.adapt.files import ARRAYS, NOTES, AdapterError, read_adapter
from needlex.checkpoint.weights import WEIGHTS, save_weights
from needlex.config import to_dict
from needlex.data.corpus import thin
from needlex.data.render import RenderConfig
from needlex.data.sources import read_rows
from needlex.finetune import carry_out as room
from needlex.finetune.__main__ import main
from needlex.finetune.carry_out import carry_out
from needlex.finetune.watch import LOG, call_f1
from needlex.loading import read
from needlex.train.loop import Moment, Seen
from tests.finetune.small import DOORS, TOOLS, small_finetune
from tests.train.runs import bits, trained, write_rows


def arrays(path) -> dict[str, np.ndarray]:
    return dict(read_adapter(path).arrays)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A finished LoRA run through the command line's own function, and its summary."""
    folder = tmp_path_factory.mktemp("tuned")
    config = small_finetune(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(to_dict(config)))
    summary = main(["--config", str(path), "--json"])
    return config, summary


def test_a_run_writes_an_adapter_that_answers(tuned):
    config, summary = tuned
    folder = Path(config.run_dir)
    names = {p.name for p in folder.iterdir()}
    assert names >= {
        ARRAYS,
        NOTES,
        LOG,
        "config.json",
        "finetune.json",
        "summary.json",
        "tokenizer.model",
        "checkpoints",
        "tensorboard",
    }
    assert summary == json.loads((folder / "summary.json").read_text())
    assert summary["steps"] == 6 and summary["finished"] and summary["best_step"] in (3, 6)
    assert summary["memory_mb"]["optimizer"] == pytest.approx(2 * summary["memory_mb"]["trained"], abs=0.002)
    assert 0 <= summary["before"]["new"]["call_f1"] <= 1 and set(summary["after"]["new"]) >= {
        "name_f1",
        "call_f1",
    }
    model = needlex.load(folder)
    assert all(call.name in ("open", "lock") for call in model.call("lock up 3", TOOLS))
    base = needlex.load(trained())
    ids = np.arange(6, 20)
    assert np.abs(np.asarray(model.logits(ids, ids)) - np.asarray(base.logits(ids, ids))).max() > 1e-4


def test_figures_after_are_of_what_lies_on_the_disk(tuned):
    """N14."""
    config, summary = tuned
    rows = read_rows(config.data.train[0])[0][-4:]
    model = read(config.run_dir)
    found = call_f1(model.model, thin(rows, config.eval_rows), model.tokenizer, model.run.data)
    assert summary["after"]["new"] == pytest.approx(found)


def test_only_what_was_adapted_differs_from_the_base(tuned):
    config, _ = tuned
    base, model = read(trained()).model, read(config.run_dir).model
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(base), jax.tree.leaves(model), strict=True):
        changed = bool((np.asarray(a) != np.asarray(b)).any())
        assert changed == (
            "attention" in jax.tree_util.keystr(path) and "weight" in jax.tree_util.keystr(path)
        )


def test_a_moved_base_is_asked_for_and_another_is_refused(tuned, tmp_path):
    config, _ = tuned
    lost = tmp_path / "lost"
    shutil.copytree(config.run_dir, lost)
    notes = json.loads((lost / NOTES).read_text())
    (lost / NOTES).write_text(json.dumps(notes | {"base": str(tmp_path / "gone")}))
    with pytest.raises(
        AdapterError, match=r"needs its base: no checkpoint at .*gone.*say where it is with `base`"
    ):
        needlex.load(lost)
    needlex.load(lost, base=trained())
    with pytest.raises(AdapterError, match="belongs on another base"):
        needlex.load(lost, base=config.run_dir)


def stopped_at(step, monkeypatch):
    """Make the run stop by a signal after its validation at `step`."""

    class Stopping(room.Watch):
        def __call__(self, moment: Moment) -> Seen:
            seen = super().__call__(moment)
            if moment.step == step:
                signal.raise_signal(signal.SIGTERM)
            return seen

    monkeypatch.setattr(room, "Watch", Stopping)


@pytest.mark.parametrize(
    "method",
    ["lora", pytest.param("qlora", marks=pytest.mark.slow), pytest.param("full", marks=pytest.mark.slow)],
)
def test_interrupted_is_uninterrupted(method, tmp_path, monkeypatch, tuned):
    config = small_finetune(tmp_path, "stopped", method=method)
    straight = Path(tuned[0].run_dir)
    if method != "lora":
        straight = tmp_path / "straight"
        carry_out(dataclasses.replace(config, run_dir=str(straight)))
    with monkeypatch.context() as patch:
        stopped_at(3, patch)
        assert carry_out(config)["steps"] == 3
    again = carry_out(dataclasses.replace(config, resume=True))
    assert (again["steps"], again["resumed_from"]) == (6, 3)
    assert (Path(config.run_dir) / LOG).read_text() == (straight / LOG).read_text()
    if method == "full":
        assert (Path(config.run_dir) / WEIGHTS).read_bytes() == (straight / WEIGHTS).read_bytes()
    else:
        assert bits(arrays(config.run_dir)) == bits(arrays(straight))


def test_a_resumed_run_must_be_the_same(tuned):
    config, _ = tuned
    with pytest.raises(ValueError, match=r"was made by another configuration \(lora\.rank: 2 and 1"):
        carry_out(dataclasses.replace(config, resume=True, lora=dataclasses.replace(config.lora, rank=1)))


def test_the_run_ends_when_the_loss_rises_and_keeps_the_best_weights(tmp_path):
    config = small_finetune(
        tmp_path, steps=30, eval_every=1, patience=2, eval_rows=0, optim__lr=3.0, optim__clip=None
    )
    summary = carry_out(config)
    losses = [v["loss"] for v in summary["validations"]]
    best = losses.index(min(losses)) + 1
    assert (
        summary["best_step"] == best
        and summary["steps"] == len(losses) == best + 2 < 30
        and summary["finished"]
    )
    assert all(np.isfinite(x).all() for x in arrays(config.run_dir).values())


@pytest.mark.slow
def test_adapters_are_trained_answered_with_and_kept_on_two_devices(tmp_path):
    config = small_finetune(tmp_path, steps=2, eval_every=1, mesh__data=2, precision="bfloat16-both")
    summary = carry_out(config)
    assert summary["finished"] and len(summary["validations"]) == 2 and len(arrays(config.run_dir)) == 24


@pytest.mark.slow
def test_full_with_replay_and_warm_up(tmp_path):
    text = tmp_path / "words.txt"
    text.write_text("".join(f"the {d} door is open and the lock of it is old\n" for d in DOORS * 10))
    config = small_finetune(
        tmp_path, method="full", replay__share=0.25, warmup__text=(str(text),), warmup__steps=2
    )
    summary = carry_out(config)
    assert summary["memory_mb"]["frozen"] == 0 and summary["finished"]
    assert (Path(config.run_dir) / "warmup" / WEIGHTS).is_file()
    assert len(read(config.run_dir).run.data.train) == 2
    assert read(config.run_dir).run.data.weights == (0.75, 0.25)


def refused(tmp_path, message, **changes):
    config = small_finetune(tmp_path, "refused", **changes)
    with pytest.raises((ValueError, OSError), match=message):
        carry_out(config)
    if config.run_dir != config.checkpoint:
        assert not Path(config.run_dir).exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora__targets": ("queries",)}, r"lora\.targets: rules \['queries'\] match no leaf"),
        ({"lora__rank": 100}, r"lora\.rank 100 is above what"),
        ({"checkpoint": "nowhere"}, "no checkpoint at nowhere"),
        ({"run_dir": str(trained())}, "run_dir and checkpoint are both"),
        ({"data__render": dataclasses.replace(RenderConfig(), descriptions=True)}, "the base reads tools as"),
        (
            {"method": "full", "replay__share": 0.1, "replay__train": ("new.jsonl", "gone.jsonl")},
            "no data file at",
        ),
        ({"data__train": ("empty.jsonl",)}, "empty.jsonl is empty"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    refused(tmp_path, message, **changes)


def test_data_without_a_usable_row(tmp_path):
    path = write_rows(tmp_path / "bad.jsonl", [{"query": "x", "tools": [], "answers": []}] * 3)
    refused(tmp_path, "no usable row", data__train=(path,))


def test_a_broken_base_is_refused(tmp_path):
    """A weight that is all zero would train and say nothing."""
    base = tmp_path / "base"
    shutil.copytree(trained(), base)
    model = read(base).model
    broken = eqx.tree_at(
        lambda m: m.decoder.layers.self_attention.key.weight, model, replace_fn=lambda w: 0 * w
    )
    save_weights(eqx.filter(broken, eqx.is_array), base / WEIGHTS)
    refused(tmp_path, "weight of decoder.layers.self_attention.key .*is all zero", checkpoint=str(base))


def test_the_command_line_names_what_is_missing(capsys):
    with pytest.raises(SystemExit) as e:
        main(["--config", "lora"])
    assert e.value.code == 2 and "--checkpoint is missing" in capsys.readouterr().err
    with pytest.raises(SystemExit) as e:
        main(["--config", "lora", "--checkpoint", "nowhere"])
    assert e.value.code == 1 and "no checkpoint at nowhere" in capsys.readouterr().err
