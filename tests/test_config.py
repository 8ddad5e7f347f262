"""Configurations: what is refused and how, what survives JSON, what changes the hash, what a resume may change."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.config import (
    ConfigError,
    difference,
    fingerprint,
    flat,
    from_dict,
    load_preset,
    parse_flags,
    preset_names,
    to_dict,
)
from needlex.data.config import DataConfig
from needlex.finetune.config import FinetuneConfig
from needlex.model.config import ModelConfig
from needlex.optim.config import OptimConfig
from needlex.train.config import NOT_HASHED, TrainConfig
from needlex.train.setup import FREE_ON_RESUME, claim_run_dir

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _beside_the_presets(monkeypatch):
    monkeypatch.chdir(ROOT)


def parse(*flags: str) -> TrainConfig:
    return parse_flags(TrainConfig, flags, "needlex.train", "Train.", "needle")


def refusal(capsys, *flags: str) -> str:
    """What is printed, in one line without boxes."""
    with pytest.raises(SystemExit) as e:
        parse(*flags)
    assert e.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return re.sub(r"[│╭╮╰╯─\s]+", " ", err)


REFUSED = {
    # C3: the nearest name
    "--data.batchsize 3": r"Unrecognized options: --data\.batchsize.*Perhaps you meant: --data\.batch-size INT",
    "--model.head 3": r"Unrecognized options: --model\.head,.*meant: --model\.heads INT",
    "--lr 3": r"Unrecognized options: --lr.*meant: --optim\.lr FLOAT",
    "--mesh": r"Unrecognized options: --mesh .*meant: --mesh\.data",
    "stray": "Unrecognized options: stray",
    "--config tinny": "--config tinny: no such preset; there are .*needle.*tiny.*; did you mean 'tiny'",
    "--config": "--config needs a name or a path; there are .*needle",
    "--config nowhere.py": r"--config nowhere\.py: no such file",
    "--config nowhere.json": r"--config nowhere\.json: no such file",
    # values of the wrong kind
    "--data.batch-size 1e5": r"--data\.batch-size: invalid literal for int.*'1e5'.*--data\.batch-size INT",
    "--steps x": r"Error parsing --steps: .*'x'",
    "--mesh.data": r"Missing value for argument '--mesh\.data'",
    "--optim.name sgd": r"invalid choice 'sgd' for argument '--optim\.name'.*'muon', 'adamw', 'adafactor'",
    # values that cannot be, alone or together
    "--data.train": r"data\.train is empty",
    "--data.weights 1 2": r"data\.weights has 2 numbers for 1 data\.train sources",
    "--data.train a b --data.weights 1 -1": r"data\.weights are \(1\.0, -1\.0\); every weight must be positive",
    "--data.batch-size 0": r"data\.batch_size is 0; it must be at least 1",
    "--data.pairs 7 --mesh.data 2": r"data\.pairs 7 cannot be split over mesh\.data 2",
    "--data.pairs 1": r"data\.pairs is 1; a pair needs another one as its negative",
    "--data.batch-size 7 --mesh.data 2": r"data\.batch_size 7 cannot be split over mesh\.data 2",
    "--data.augment.values 2": r"augment\.values is 2\.0; it is a share",
    "--data.max-tools 0": r"data\.max_tools is 0",
    "--data.embedded.rows -1": r"data\.embedded: rows must not be negative",
    "--mesh.data 0": r"mesh\.data is 0; give a number of devices, or -1",
    "--steps 5 --epochs 2": "steps and epochs are both set",
    "--steps 0": "steps is 0; it must be at least 1",
    "--resume --overwrite": "resume and overwrite are both set",
    "--precision float64": "precision 'float64' is unknown; choose one of float32, bfloat16",
    "--model.heads 8 --model.kv-heads 3": r"model\.heads 8 must be a multiple of model\.kv_heads 3",
    "--model.d-model 30": r"model\.d_model 30 / model\.heads 8 must be an even whole number",
    "--model.dropout 1": r"model\.dropout is 1\.0; it must be in \[0, 1\)",
    "--model.d-ff 9": r"model\.d_ff is set but model\.feedforward is off",
    "--model.mat-factors 2": r"model\.mat_factors is set but model\.feedforward is off",
    "--optim.warmup-ratio 0.7 --optim.decay-ratio 0.7": r"optim\.warmup_ratio 0\.7 \+ optim\.decay_ratio 0\.7",
    "--optim.lr 0": r"optim\.lr is 0\.0; it must be positive",
    "--loss.contrastive-every 0": r"loss\.contrastive_every is 0",
    "--checkpoint.keep 0": r"checkpoint\.keep is 0",
    "--tokenizer.vocab-size 10": r"tokenizer\.vocab_size is 10",
    "--prune.sparsity 1": r"prune\.sparsity is 1\.0",
    "--run-dir=": "run_dir is empty",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_impossible_flags_are_refused_with_status_2_by_name(capsys, flags):
    assert re.search(REFUSED[flags], refusal(capsys, *flags.split()))


def test_flags_override_single_fields_of_a_preset():
    base = parse()
    assert base == load_preset("needle", TrainConfig)  # no sub-command is asked for
    found = parse(
        "--config", "tiny", "--optim.lr", "1e-3", "--data.train", "a", "b", "--data.weights", "1", "2.5",
        "--json", "--resume", "--steps", "None", "--epochs", "3", "--data.max-tools", "4", "--mesh.data", "-1",
        "--data.no-packing", "--optim.clip", "None", "--run-dir", "x",
    )  # fmt: skip
    tiny = load_preset("tiny", TrainConfig)
    wanted = dataclasses.replace(
        tiny,
        optim=dataclasses.replace(tiny.optim, lr=1e-3, clip=None),
        data=dataclasses.replace(tiny.data, train=("a", "b"), weights=(1.0, 2.5), max_tools=4, packing=False),
        mesh=dataclasses.replace(tiny.mesh, data=-1),
        json=True, resume=True, steps=None, epochs=3, run_dir="x",
    )  # fmt: skip
    assert difference(found, wanted) == []
    assert found == wanted
    assert parse("--config=tiny") == tiny
    assert parse("--optim.lr", "2e-3", "--config", "tiny").optim.lr == 2e-3  # wherever it stands


def test_help_has_a_flag_for_every_field(capsys):
    with pytest.raises(SystemExit) as e:
        parse("--help")
    assert e.value.code == 0
    text = capsys.readouterr().out
    missing = [n for n in flat(parse()) if f"--{n.replace('_', '-')} " not in text.replace(",", " ")]
    assert missing == []
    assert "needle,tiny" in text


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in (TrainConfig, FinetuneConfig) for name in preset_names(kind)]
)
def test_presets_survive_json(kind, name):
    config = load_preset(name, kind)
    assert from_dict(kind, json.loads(json.dumps(to_dict(config)))) == config
    # And as files that name them: a saved configuration, the folder it lies in, a Python file.
    assert load_preset(str(ROOT / "configs" / f"{name}.py"), kind) == config


def test_every_preset_is_of_one_kind():
    kinds = [preset_names(kind) for kind in (TrainConfig, FinetuneConfig)]
    assert kinds == [["needle", "tiny"], ["full", "lora", "qlora"]]
    assert sorted(name for names in kinds for name in names) == preset_names()


@given(
    top=st.fixed_dictionaries({
        "run_dir": st.text(min_size=1),
        "steps": st.none() | st.integers(1, 10**9),
        "precision": st.sampled_from(["float32", "bfloat16", "float16-storage"]),
    }),
    data=st.fixed_dictionaries({
        "train": st.lists(st.text(min_size=1), min_size=1, max_size=3).map(tuple),
        "max_tools": st.none() | st.integers(1, 9),
        "packing": st.booleans(),
    }),
    model=st.fixed_dictionaries({
        "dropout": st.floats(0, 0.9), "vocab_size": st.none() | st.integers(300, 9000),
    }),
    optim=st.fixed_dictionaries({
        "lr": st.floats(1e-9, 1e3), "name": st.sampled_from(["muon", "adamw", "adafactor"]),
    }),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_any_configuration_survives_json(top, data, model, optim):
    parts = {"data": DataConfig(**data), "model": ModelConfig(**model), "optim": OptimConfig(**optim)}
    config = TrainConfig(**top, **parts)
    again = from_dict(TrainConfig, json.loads(json.dumps(to_dict(config))))
    assert again == config
    assert fingerprint(again) == fingerprint(config)


def test_configurations_are_read_from_a_run_and_from_json(tmp_path):
    config = dataclasses.replace(load_preset("tiny", TrainConfig), seed=7)
    (tmp_path / "config.json").write_text(json.dumps(to_dict(config)))
    for name in (str(tmp_path), str(tmp_path / "config.json")):
        assert load_preset(name, TrainConfig) == config


BROKEN = {
    "unknown": ({"seeed": 1}, r"unknown field seeed; did you mean seed\?"),
    "unknown inside": ({"data": {"batchsize": 1}}, r"unknown field data\.batchsize; did you mean data\.batch_size\?"),
    "unknown deep": ({"data": {"augment": {"valuess": 1.0}}}, r"data\.augment\.valuess; did you mean data\.augment\.values"),
    "text for a list": ({"data": {"train": "rows.jsonl"}}, r"data\.train is 'rows\.jsonl'; it must be a list"),
    "number in a list of text": ({"data": {"train": [3]}}, r"data\.train\[0\] is 3; it must be of type str"),
    "text for a number": ({"seed": "1"}, "seed is '1'; it must be of type int"),
    "true for a number": ({"seed": True}, "seed is True; it must be of type int"),
    "fraction for a whole number": ({"seed": 1.5}, r"seed is 1\.5; it must be of type int"),
    "nothing": ({"seed": None}, "seed is None; it must be of type int"),
    "a list": ([], "configuration must be an object, not list"),
    "a number for a part": ({"data": 3}, r"data\.? must be an object, not int"),
    "choice": ({"optim": {"name": "sgd"}}, r"optim\.name is 'sgd'; choose one of 'muon'"),
    "impossible": ({"model": {"heads": 3}}, r"model\.d_model 512 / model\.heads 3"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_json_is_refused_by_file_and_field(kind, tmp_path):
    raw, message = BROKEN[kind]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ConfigError, match=message) as e:
        load_preset(str(path), TrainConfig)
    assert str(path) in str(e.value)


def test_files_that_are_no_configuration_say_why(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{\n"seed": 1,\n')
    with pytest.raises(ConfigError, match=r"config\.json is not valid JSON \(.*, line 3\)"):
        load_preset(str(path), TrainConfig)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_preset(str(path), TrainConfig)
    path = tmp_path / "mine.py"
    for text, message in [
        ("import nothing_of_this_name", r"mine\.py fails with ModuleNotFoundError"),
        ("from needlex.train.config import TrainConfig\nconfig = TrainConfig(steps=0)", "fails with ValueError: steps is 0"),
        ("config = 3", r"mine\.py must define `config`, a TrainConfig; it holds int"),
        ("settings = 3", r"mine\.py must define `config`, a TrainConfig; it holds NoneType"),
    ]:  # fmt: skip
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_preset(str(path), TrainConfig)
    assert not (tmp_path / "__pycache__").exists()  # presets may lie in a read-only place


def changed(config: TrainConfig, name: str) -> TrainConfig:
    """A copy with another value in one field, checked by nobody."""
    found = copy.deepcopy(config)
    *parts, last = name.split(".")
    node: Any = found
    for part in parts:
        node = getattr(node, part)
    value = getattr(node, last)
    other = {bool: lambda: not value, tuple: lambda: (*value, *(value[-1:] or (0.5,)))}.get(
        type(value), lambda: "other" if value is None or isinstance(value, str) else value + 1
    )
    object.__setattr__(node, last, other())
    return found


CONFIG = load_preset(str(ROOT / "configs" / "tiny.py"), TrainConfig)


@pytest.mark.parametrize("name", flat(CONFIG))
def test_the_hash_changes_with_what_is_computed(name):
    other = changed(CONFIG, name)
    assert [d.split(":")[0] for d in difference(CONFIG, other)] == [name]
    assert fingerprint(CONFIG) != fingerprint(other)
    same = name.split(".")[0] in NOT_HASHED
    assert (fingerprint(CONFIG, NOT_HASHED) == fingerprint(other, NOT_HASHED)) == same


@pytest.mark.parametrize("name", [n for n in flat(CONFIG) if n not in ("run_dir", "resume", "overwrite")])
def test_a_resume_with_another_configuration_is_refused_by_the_field(name, tmp_path):
    """D7: what decides the numbers must be the same; how long, how often and on what may change."""
    config = dataclasses.replace(CONFIG, run_dir=str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    saved = tmp_path / "run" / "config.json"
    model = dataclasses.replace(config.model, vocab_size=768)  # as a run saves it, settled by its tokenizer
    saved.write_text(json.dumps(to_dict(dataclasses.replace(config, model=model))))
    resumed = changed(config, name)
    object.__setattr__(resumed, "resume", True)
    if name.split(".")[0] in NOT_HASHED or name in FREE_ON_RESUME:
        claim_run_dir(resumed)
    else:
        with pytest.raises(
            ValueError, match=rf"--resume: .*config\.json was made by .*\({re.escape(name)}: "
        ):
            claim_run_dir(resumed)
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["config.json"]


def test_a_folder_is_claimed_only_when_asked(tmp_path):
    def claim(name: str, **flags: bool) -> None:
        claim_run_dir(dataclasses.replace(CONFIG, run_dir=str(tmp_path / name), **flags))

    claim("new")
    (tmp_path / "empty").mkdir()
    claim("empty")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"run_dir .*file is a file; give a folder"):
        claim("file")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters").write_text("dear")
    with pytest.raises(
        ValueError, match=r"run_dir .*home is not empty; add --resume .* --overwrite .* --run-dir"
    ):
        claim("home")
    with pytest.raises(
        ValueError, match=r"--overwrite: .*home is not empty and no run .*nothing there is deleted"
    ):
        claim("home", overwrite=True)
    (tmp_path / "home" / "config.json").write_text(json.dumps(to_dict(CONFIG)))
    claim("home", overwrite=True)
    assert (tmp_path / "home" / "letters").read_text() == "dear"  # not before the new run can start
    (tmp_path / "home" / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"home/config\.json is not valid JSON"):
        claim("home", resume=True)


def test_the_table_of_flags_is_true():
    """docs/flags.md: every flag there is one of ours, with the default that it states."""
    fields = flat(load_preset("needle", TrainConfig))
    rows = [
        re.findall(r"`(--[\w.-]+)`(?: \[([^\]]*)\])?", line.split("|")[2])
        for line in (ROOT / "docs" / "flags.md").read_text().splitlines()
        if line.startswith("| `--")
    ]
    flags = [pair for row in rows for pair in row]
    assert len(flags) > 30
    for flag, default in flags:
        name = flag.removeprefix("--").replace("-", "_").replace(".no_", ".")
        assert name in fields, flag
        if default in ("", "all", "none", "off"):
            assert not default or fields[name] in (None, (), False), flag
        elif flag != "--epochs":  # 1 if neither steps nor epochs are given
            assert str(fields[name]) == default or float(default) == fields[name], flag
