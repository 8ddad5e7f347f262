"""Checkpoints with Orbax: named items of flat arrays, written in the background, restored onto any mesh.

A step holds `params` (in the storage dtype: what inference loads), `masters` (only if they are of another
dtype), `state` (optimizer, step, key, counters), `data` (position of the loader) and `meta` (JSON). Arrays are
saved by leaf path; the structure is rebuilt from the configuration and compared name by name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import grain
import jax
import orbax.checkpoint as ocp

from needlex.checkpoint.config import CheckpointConfig
from needlex.precision import Policy
from needlex.tree import path_name

logging.getLogger("absl").setLevel(logging.ERROR)  # Orbax narrates every save


class CheckpointError(ValueError):
    """A checkpoint that is not there, cannot be read or belongs to another model."""


def flatten(tree: Any) -> dict[str, Any]:
    """Array leaves by dotted path."""
    return {path_name(p): x for p, x in jax.tree_util.tree_leaves_with_path(tree)}


def unflatten(flat: dict[str, Any], like: Any) -> Any:
    """The arrays of `flat` in the structure of `like`."""
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    return jax.tree.unflatten(structure, [flat[path_name(p)] for p, _ in paths])


def folder(run_dir: str | Path) -> Path:
    """Where a run keeps its checkpoints."""
    return Path(run_dir).absolute() / "checkpoints"


def saved_steps(run_dir: str | Path) -> list[int]:
    """Steps that are there, oldest first; what one of them lacks is found on reading.

    Leftovers of a killed save have other names.
    """
    root = folder(run_dir)
    if not root.is_dir():
        return []
    return sorted(int(p.name) for p in root.iterdir() if p.name.isdigit())


def _open(root: Path, options: ocp.CheckpointManagerOptions | None = None) -> ocp.CheckpointManager:
    # Without handlers a fresh process cannot read the metadata of what another one saved.
    handlers = {name: ocp.StandardCheckpointHandler() for name in ("params", "masters", "state")}
    # Grain's own handler writes a file for each process, which another number of processes cannot read;
    # the position is the same for all of them.
    handlers |= {name: ocp.JsonCheckpointHandler() for name in ("data", "meta")}
    return ocp.CheckpointManager(root, item_handlers=handlers, options=options)


class Store:
    """Checkpoints of one run directory."""

    def __init__(self, run_dir: str | Path, config: CheckpointConfig, policy: Policy):
        self.run_dir, self.policy = Path(run_dir), policy
        root = folder(run_dir)
        root.mkdir(parents=True, exist_ok=True)
        options = ocp.CheckpointManagerOptions(max_to_keep=config.keep, enable_async_checkpointing=True)
        self._manager = _open(root, options)

    def save(
        self, step: int, params: Any, state: Any, data: grain.DatasetIterator, meta: dict[str, Any]
    ) -> None:
        """Start saving `step`; returns before the files are written.

        **Raises:** `CheckpointError` if nothing was written.
        """
        if step in saved_steps(self.run_dir):
            self._manager.delete(step)  # a broken step that a resumed run has passed again
        items = {
            "params": ocp.args.StandardSave(flatten(self.policy.to_storage(params))),
            "state": ocp.args.StandardSave(flatten(state)),
            "data": ocp.args.JsonSave(data.get_state()),
            "meta": ocp.args.JsonSave(meta),
        }
        if self.policy.storage != self.policy.param:
            items["masters"] = ocp.args.StandardSave(flatten(params))
        if not self._manager.save(step, args=ocp.args.Composite(**items), force=True):
            raise CheckpointError(f"step {step} was not saved to {folder(self.run_dir)}; is it writable?")

    def restore(
        self, params: Any, state: Any, data: grain.DatasetIterator, say: Callable[[str], None] = print
    ) -> tuple[int, Any, Any]:
        """Newest readable step: (step, params, state); `data` is moved to where it was.

        Arrays get the shapes, dtypes and shardings of the given ones. A step that cannot be read is
        reported through `say` and the one before is tried.

        **Raises:** `CheckpointError` if no step can be read.
        """
        failures = []
        for step in reversed(saved_steps(self.run_dir)):
            masters = "masters" if self.policy.storage != self.policy.param else "params"
            try:
                items = {
                    masters: _restore_args(self._manager, step, masters, params),
                    "state": _restore_args(self._manager, step, "state", state),
                    "data": ocp.args.JsonRestore(),
                }
                found = self._manager.restore(step, args=ocp.args.Composite(**items))
                data.set_state(found["data"])
                return step, unflatten(found[masters], params), unflatten(found["state"], state)
            except MismatchError:
                raise
            except Exception as e:  # Orbax and tensorstore raise many kinds for a damaged file
                reason = f"step {step} cannot be read ({_brief(e)})"
                failures.append(reason)
                say(f"checkpoint: {reason}; falling back to the one before")
        detail = "; ".join(failures) or "there is none"
        raise CheckpointError(f"no readable checkpoint in {folder(self.run_dir)}: {detail}")

    def wait(self) -> None:
        """Until everything is on disk."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        self.wait()
        self._manager.close()


def _brief(e: Exception) -> str:
    return f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0][:160]}"


class MismatchError(CheckpointError):
    """A checkpoint of other leaves, shapes or dtypes than the configuration makes."""


def _restore_args(manager: ocp.CheckpointManager, step: int, item: str, like: Any) -> Any:
    """Restore arguments for `like`, after comparing names, shapes and dtypes: Orbax would cast in silence."""
    wanted = flatten(like)
    metadata = manager.item_metadata(step)[item]
    if metadata is None:
        raise FileNotFoundError(f"item {item!r} is missing")
    found = dict(getattr(metadata, "tree", metadata))
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or extra:
        raise MismatchError(
            f"checkpoint {step} does not fit this model: item {item!r} lacks {missing[:3]} and has unknown "
            f"{extra[:3]}; use the configuration it was trained with"
        )
    for name, leaf in wanted.items():
        meta = found[name]
        shape, dtype = tuple(getattr(meta, "shape", leaf.shape) or ()), getattr(meta, "dtype", None)
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if is_key:
            continue
        if shape != tuple(leaf.shape) or (dtype is not None and dtype != leaf.dtype):
            raise MismatchError(
                f"checkpoint {step}, leaf {name}: saved {dtype}{list(shape)}, this configuration makes "
                f"{leaf.dtype}{list(leaf.shape)}"
            )
    abstract = {
        k: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None))
        for k, x in wanted.items()
    }
    return ocp.args.StandardRestore(abstract)


def load_params(
    run_dir: str | Path, like: Any, step: int | None, say: Callable[[str], None] = print
) -> tuple[int, Any]:
    """Parameters for inference, of `step` or of the newest readable one, in structure and dtype of `like`.

    **Raises:** `CheckpointError` naming what was tried.
    """
    steps = saved_steps(run_dir)
    if not steps:
        raise CheckpointError(
            f"no checkpoint in {folder(run_dir)}; train one with `python -m needlex.train --run-dir {run_dir}`"
        )
    if step is not None and step not in steps:
        raise CheckpointError(f"{run_dir} has no step {step}; there are {steps}")
    arrays = eqx.filter(like, lambda x: eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct))
    wanted = flatten(arrays)
    # Named, or Orbax asks for the devices that the run was trained on.
    here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    failures = []
    with _open(folder(run_dir), ocp.CheckpointManagerOptions(read_only=True)) as manager:
        for candidate in [step] if step is not None else reversed(steps):
            try:
                saved = manager.item_metadata(candidate)["params"]
                found = dict(getattr(saved, "tree", saved))
                dtypes = {k: found[k].dtype for k in wanted if k in found}
                stored = {
                    k: jax.ShapeDtypeStruct(x.shape, dtypes.get(k, x.dtype), sharding=here)
                    for k, x in wanted.items()
                }
                args = _restore_args(manager, candidate, "params", stored)
                flat = manager.restore(candidate, args=ocp.args.Composite(params=args))["params"]
                return candidate, unflatten({k: flat[k].astype(x.dtype) for k, x in wanted.items()}, arrays)
            except MismatchError:
                raise
            except Exception as e:
                failures.append(f"step {candidate}: {_brief(e)}")
                if step is None:
                    say(f"checkpoint: {failures[-1]}; trying the one before")
    raise CheckpointError(f"no readable checkpoint in {folder(run_dir)}: {'; '.join(failures)}")
