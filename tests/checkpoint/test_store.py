"""Checkpoints: bit for bit on any mesh, or refused by name; broken steps are passed over."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.checkpoint.config import CheckpointConfig
from needlex.checkpoint.store import CheckpointError, MismatchError, Store, folder, load_params, saved_steps
from needlex.precision import named
from needlex.sharding import MeshConfig, build_mesh, replicated

SINGLE, HALF = named("float32"), named("float16-storage")


def params(seed: int = 0) -> dict[str, Any]:
    """Weights with values that a careless copy changes: negative zero, a subnormal, infinity and NaN."""
    odd = jnp.array([-0.0, 1e-42, jnp.inf, jnp.nan, -65504.0, 1 + 2**-20])
    return {
        "encoder": {"weight": jr.normal(jr.key(seed), (2, 3, 4)), "gate": jnp.zeros(2) - 0.1 * seed},
        "table": jnp.concatenate([odd, jr.normal(jr.key(seed + 1), (6,))]),
    }


def state(seed: int = 0) -> dict[str, Any]:
    return {
        "moments": params(seed + 7),
        "narrow": jr.normal(jr.key(seed), (3,), jnp.bfloat16),
        "step": jnp.array(seed, jnp.int32),
        "key": jr.key(seed),
    }


def stream() -> grain.DatasetIterator:
    return iter(grain.MapDataset.range(1000).seed(3).shuffle().to_iter_dataset())


def advanced(n: int) -> grain.DatasetIterator:
    found = stream()
    for _ in range(n):
        next(found)
    return found


def bits(tree: Any) -> dict[str, tuple[str, bytes]]:
    """Dtype and bytes of every leaf."""
    raw = jax.tree.map(lambda x: jr.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x, tree)
    leaves = jax.tree_util.tree_leaves_with_path(raw)
    return {jax.tree_util.keystr(p): (str(x.dtype), np.asarray(x).tobytes()) for p, x in leaves}


def saved(run: Path, *steps: int, policy=SINGLE, keep: int = 9) -> None:
    """A run directory with these steps; step n holds the trees of seed n and data at position n."""
    store = Store(run, CheckpointConfig(keep=keep), policy)
    for n in steps:
        store.save(n, params(n), state(n), advanced(n), {"step": n})
    store.close()


def restored(
    run: Path, policy=SINGLE, like: Any = None, rest: Any = None
) -> tuple[Any, grain.DatasetIterator, list[str]]:
    data, said = stream(), []
    store = Store(run, CheckpointConfig(), policy)
    try:
        found = store.restore(
            params() if like is None else like, state() if rest is None else rest, data, said.append
        )
    finally:
        store.close()
    return found, data, said


def on(tree: Any, devices: int) -> Any:
    mesh = build_mesh(MeshConfig(data=devices))
    return jax.device_put(tree, replicated(mesh))


def test_eight_devices_to_one_to_eight_bit_for_bit(tmp_path):
    """D5: a mesh of another size restores the same bits, placed where they are asked for."""
    wanted = bits(params(1)), bits(state(1))
    placed = on(params(1), 8), on(state(1), 8)
    for i, devices in enumerate((1, 8, 2)):
        run = tmp_path / str(i)
        store = Store(run, CheckpointConfig(), SINGLE)
        store.save(5, *placed, advanced(5), {})
        store.close()
        (step, found, rest), data, said = restored(run, like=on(params(), devices), rest=on(state(), devices))
        assert (step, said) == (5, [])
        assert (bits(found), bits(rest)) == wanted
        assert {len(x.sharding.device_set) for x in jax.tree.leaves((found, rest))} == {devices}
        assert [next(data) for _ in range(3)] == [next(d) for d in [advanced(5)] for _ in range(3)]
        placed = found, rest


def changed(tree: Any, change: Callable[[Any], Any]) -> Any:
    return {**tree, "encoder": {**tree["encoder"], "weight": change(tree["encoder"]["weight"])}}


OTHERS = {
    "dtype": (lambda x: x.astype(jnp.bfloat16), r"encoder\.weight: saved float32\[2, 3, 4\].*bfloat16"),
    "shape": (lambda x: x[:1], r"encoder\.weight: saved float32\[2, 3, 4\].*\[1, 3, 4\]"),
    "same size, other axes": (lambda x: x.transpose(1, 0, 2), r"encoder\.weight: saved .*\[3, 2, 4\]"),
    "scalar": (lambda x: x[0, 0, 0], r"encoder\.weight: saved .*float32\[\]"),
    "extra leaf": (lambda x: {"a": x, "b": x}, r"lacks .*encoder\.weight\.a.* unknown .*encoder\.weight"),
    "missing leaf": (lambda x: None, r"unknown .*encoder\.weight"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_model_is_refused_by_the_name_of_the_leaf(tmp_path, kind):
    """D5, D7: never a silent cast, never a fall back to an older step either."""
    change, message = OTHERS[kind]
    saved(tmp_path, 1, 2)
    with pytest.raises(MismatchError, match=message):
        restored(tmp_path, like=changed(params(), change))
    with pytest.raises(MismatchError, match=message):
        restored(tmp_path, rest={**state(), "moments": changed(params(), change)})
    if kind != "dtype":  # inference takes the dtype it asks for
        with pytest.raises(MismatchError, match=message):
            load_params(tmp_path, changed(params(), change), None)


def largest(folder: Path) -> Path:
    return max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


BREAKS: dict[str, Callable[[Path], Any]] = {
    "truncated parameters": lambda step: truncate(largest(step / "params")),
    "parameters without bytes": lambda step: largest(step / "params").write_bytes(b""),
    "no data files": lambda step: [p.unlink() for p in (step / "params").rglob("*") if p.is_file()],
    "emptied step": empty,
    "emptied item": lambda step: empty(step / "params"),
    "missing item": lambda step: shutil.rmtree(step / "params"),
    "unfinished": lambda step: step.rename(step.with_name(step.name + ".orbax-checkpoint-tmp-17")),
}
STATE_BREAKS: dict[str, Callable[[Path], Any]] = {
    "missing state": lambda step: shutil.rmtree(step / "state"),
    "truncated state": lambda step: truncate(largest(step / "state")),
    "missing data": lambda step: shutil.rmtree(step / "data"),
    "truncated data": lambda step: truncate(step / "data" / "metadata"),
    "data of nothing": lambda step: (step / "data" / "metadata").write_text("{}"),
}


@pytest.mark.parametrize("kind", [*BREAKS, *STATE_BREAKS])
def test_a_broken_newest_step_falls_back_and_can_be_written_again(tmp_path, kind):
    """D6: the one before is taken and the reason is said; the resumed run passes the broken step again."""
    saved(tmp_path, 10, 20, 30)
    (BREAKS | STATE_BREAKS)[kind](folder(tmp_path) / "30")
    (step, found, rest), data, said = restored(tmp_path)
    assert step == 20
    assert (bits(found), bits(rest)) == (bits(params(20)), bits(state(20)))
    assert [next(data) for _ in range(5)] == [next(d) for d in [advanced(20)] for _ in range(5)]
    told = "30" in "\n".join(said)
    assert told or kind == "unfinished"  # a save that never ended is no step
    if kind in BREAKS:
        said = []
        assert load_params(tmp_path, params(), None, said.append)[0] == 20
        assert "30" in "\n".join(said) or kind == "unfinished"
    # The run goes on from 20 and saves in between, and then the broken step anew.
    store = Store(tmp_path, CheckpointConfig(keep=9), SINGLE)
    store.save(25, params(25), state(25), advanced(25), {})
    store.wait()
    assert restored(tmp_path)[0][0] == 25
    store.save(30, params(31), state(31), advanced(31), {})
    store.close()
    (step, found, _), _, said = restored(tmp_path)
    assert (step, said) == (30, [])
    assert bits(found) == bits(params(31))


def test_no_readable_step_is_an_error_that_names_what_was_tried(tmp_path):
    with pytest.raises(CheckpointError, match=r"no readable checkpoint in .*checkpoints: there is none"):
        restored(tmp_path)
    with pytest.raises(CheckpointError, match=r"no checkpoint in .*needlex.train --run-dir"):
        load_params(tmp_path, params(), None)
    saved(tmp_path, 1, 2)
    for step in ("1", "2"):
        truncate(largest(folder(tmp_path) / step / "params"))
    with pytest.raises(CheckpointError, match=r"no readable checkpoint in .*step 2 .*step 1 "):
        restored(tmp_path)
    with pytest.raises(CheckpointError, match=r"no readable checkpoint in .*step 2.*step 1"):
        load_params(tmp_path, params(), None)


def test_a_step_that_was_asked_for_is_never_replaced_by_another(tmp_path):
    saved(tmp_path, 1, 2, 3)
    assert load_params(tmp_path, params(), 2)[0] == 2
    with pytest.raises(CheckpointError, match=r"no step 7; there are \[1, 2, 3\]"):
        load_params(tmp_path, params(), 7)
    truncate(largest(folder(tmp_path) / "2" / "params"))
    with pytest.raises(CheckpointError, match="step 2"):
        load_params(tmp_path, params(), 2)


def test_float16_storage_keeps_masters_bit_for_bit(tmp_path):
    """What inference loads is float16 on disk, what training continues from is float32, untouched."""
    saved(tmp_path, 4, policy=HALF)
    (step, found, rest), _, _ = restored(tmp_path, policy=HALF)
    assert step == 4
    assert (bits(found), bits(rest)) == (bits(params(4)), bits(state(4)))
    stored = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float16), params())
    assert bits(load_params(tmp_path, stored, None)[1]) == bits(HALF.to_storage(params(4)))
    with pytest.raises(MismatchError, match=r"saved float16\[.*makes float32\["):
        restored(tmp_path, policy=SINGLE)
    loaded = load_params(tmp_path, params(), None)[1]
    assert bits(loaded) == bits(SINGLE.to_param(HALF.to_storage(params(4))))


def test_only_the_newest_steps_are_kept(tmp_path):
    saved(tmp_path, 1, 2, 3, 4, 5, keep=2)
    assert saved_steps(tmp_path) == [4, 5]
    assert restored(tmp_path)[0][0] == 5


ONE_DEVICE = """
import jax, sys
from needlex.checkpoint.store import load_params
def leaf(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")
like = {"encoder": {"weight": leaf(2, 3, 4), "gate": leaf(2)}, "table": leaf(12)}
step, found = load_params(sys.argv[1], like, None)
assert len(jax.devices()) == 1
print(step, *(x.tobytes().hex() for x in map(jax.device_get, jax.tree.leaves(found))))
"""


def test_a_process_with_one_device_reads_what_eight_wrote(tmp_path):
    """D5 for inference: nobody has the devices of the training run."""
    store = Store(tmp_path, CheckpointConfig(), SINGLE)
    store.save(5, on(params(1), 8), on(state(1), 8), advanced(5), {})
    store.close()
    command = [sys.executable, "-c", ONE_DEVICE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["5", *(np.asarray(x).tobytes().hex() for x in jax.tree.leaves(params(1)))]


def test_reading_changes_nothing_on_disk(tmp_path):
    saved(tmp_path, 1, 2)
    (folder(tmp_path) / "3.orbax-checkpoint-tmp-9").mkdir()  # another process is writing it
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    load_params(tmp_path, params(), None)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
