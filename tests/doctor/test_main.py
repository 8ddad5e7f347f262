"""The doctor's command line: green on what works, red and status 1 on what does not, a message for what cannot be."""

from __future__ import annotations

import json
import re
import shutil

import equinox as eqx
import pytest

import needlex.nn.attention as attention_room
from needlex.checkpoint.weights import WEIGHTS, save_weights
from needlex.doctor.__main__ import main
from needlex.loading import read
from tests.doctor.test_parity import interleaved
from tests.train.runs import trained

FLAGS = ["--checkpoint", str(trained()), "--lora.rank", "2", "--json"]


def report(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize(
    "name", ["qlora", *(pytest.param(n, marks=pytest.mark.slow) for n in ("lora", "full"))]
)
def test_presets_are_green_on_a_trained_model(name, capsys):
    assert main(["--config", name, *FLAGS]) == 0, capsys.readouterr().out
    found = report(capsys)
    assert found["ok"] and {f["area"] for f in found["findings"]} == {
        "constants",
        "updates",
        "parity",
        "loss",
        "environment",
    }


@pytest.mark.slow
def test_a_preset_of_training_needs_no_checkpoint(capsys):
    assert (
        main(["--config", "tiny", "--model.encoder-layers", "1", "--model.decoder-layers", "1", "--json"])
        == 0
    )
    assert report(capsys)["ok"]


@pytest.mark.slow
def test_a_wrong_forward_pass_is_red(capsys, monkeypatch):
    monkeypatch.setattr(attention_room, "rotate", interleaved)
    assert main(["--config", "lora", *FLAGS]) == 1
    red = {f["name"]: f["detail"] for f in report(capsys)["findings"] if not f["ok"]}
    assert "encoder.layers[0], first operation: attention.query norm and rotary" in red["bisection"]


def test_a_loss_far_above_uniform_is_a_wrong_forward_pass(capsys, tmp_path):
    """N12: weights that say the wrong thing loudly."""
    base = tmp_path / "base"
    shutil.copytree(trained(), base)
    model = read(base).model
    loud = eqx.tree_at(lambda m: m.embedding.weight, model, replace_fn=lambda w: 40 * w)
    save_weights(eqx.filter(loud, eqx.is_array), base / WEIGHTS)
    assert main(["--config", "full", "--checkpoint", str(base), "--json"]) == 1
    red = {f["name"]: f["detail"] for f in report(capsys)["findings"] if not f["ok"]}
    assert "the forward pass is wrong, not the data" in red["first loss against ln(V)"]


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["--config", "lora"], 1, "--checkpoint is missing"),
        (["--config", "lora", "--checkpoint", "nowhere"], 1, "no checkpoint at nowhere"),
        (["--config", "lara"], 2, "no such preset; there are .*did you mean 'lora'"),
    ],
)
def test_what_cannot_be_examined(argv, status, message, capsys):
    try:
        found = main(argv)
    except SystemExit as e:
        found = e.code
    assert found == status
    assert re.search(message, capsys.readouterr().err)
