"""Needle v1 checkpoints: taken over, and written back.

One table says which of their leaves is which of ours. Kernels are (in, out) and layers are stacked on axis 0
in both, so nothing is transposed; whatever the table does not cover stops the import or the export.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from needlex.checkpoint.unpickle import ForeignError, load_arrays
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import PAD, Seq2Seq
from needlex.nn.feedforward import Activation
from needlex.tree import leaf_paths, path_name

__all__ = ["CONFIG_TABLE", "TABLE", "ForeignError", "export_v1", "import_v1", "read_v1"]

Rows = tuple[tuple[str, str], ...]


def _under(theirs: str, ours: str, rows: Rows) -> Rows:
    return tuple((f"{theirs}/{a}", f"{ours}.{b}") for a, b in rows)


_ATTENTION: Rows = (
    ("q_proj/kernel", "query.weight"),
    ("k_proj/kernel", "key.weight"),
    ("v_proj/kernel", "value.weight"),
    ("out_proj/kernel", "out.weight"),
    ("q_norm/scale", "query_norm.scale"),
    ("k_norm/scale", "key_norm.scale"),
)

_FEEDFORWARD: Rows = (
    ("FeedForward_0/gate_proj/kernel", "feedforward.layer.gate.weight"),
    ("FeedForward_0/up_proj/kernel", "feedforward.layer.up.weight"),
    ("FeedForward_0/down_proj/kernel", "feedforward.layer.down.weight"),
    ("ffn_gate", "feedforward.gate"),
)

_ENCODER_BLOCK: Rows = (
    ("ZCRMSNorm_0/scale", "norm.scale"),
    *_under("self_attn", "attention", _ATTENTION),
    ("attn_gate", "gate"),
    ("ZCRMSNorm_1/scale", "feedforward.norm.scale"),
    *_FEEDFORWARD,
)

_DECODER_BLOCK: Rows = (
    ("ZCRMSNorm_0/scale", "self_norm.scale"),
    *_under("self_attn", "self_attention", _ATTENTION),
    ("self_attn_gate", "self_gate"),
    ("ZCRMSNorm_1/scale", "cross_norm.scale"),
    *_under("cross_attn", "cross_attention", _ATTENTION),
    ("cross_attn_gate", "cross_gate"),
    ("ZCRMSNorm_2/scale", "feedforward.norm.scale"),
    *_FEEDFORWARD,
)

TABLE: Rows = (
    ("embedding/embedding", "embedding.weight"),
    *_under("encoder/layers/EncoderBlock_0", "encoder.layers", _ENCODER_BLOCK),
    ("encoder/final_norm/scale", "encoder.norm.scale"),
    *_under("decoder/layers/DecoderBlock_0", "decoder.layers", _DECODER_BLOCK),
    ("decoder/ZCRMSNorm_0/scale", "decoder.norm.scale"),
    ("contrastive_hidden/kernel", "contrastive.hidden.weight"),
    ("contrastive_hidden/bias", "contrastive.hidden.bias"),
    ("contrastive_proj/kernel", "contrastive.out.weight"),
    ("log_temp", "contrastive.log_temperature"),
    ("confidence_hidden/kernel", "confidence.hidden.weight"),
    ("confidence_hidden/bias", "confidence.hidden.bias"),
    ("confidence_out/kernel", "confidence.out.weight"),
    ("confidence_out/bias", "confidence.out.bias"),
)
"""(leaf of v1, leaf of `Seq2Seq`). Feed-forward and confidence rows apply where the model has the part."""

CONFIG_TABLE: dict[str, tuple[str, type | tuple[type, ...], Any]] = {
    "vocab_size": ("vocab_size", int, None),
    "d_model": ("d_model", int, None),
    "num_heads": ("heads", int, None),
    "num_kv_heads": ("kv_heads", int, None),
    "num_encoder_layers": ("encoder_layers", int, None),
    "num_decoder_layers": ("decoder_layers", int, None),
    "contrastive_dim": ("contrastive_dim", int, 128),
    "activation": ("activation", str, "swiglu"),
    "dropout_rate": ("dropout", (float, int), 0.0),
    "rope_theta": ("rope_base", (float, int), 10000.0),
}
"""Config key of v1 -> (field of `ModelConfig`, its type, value where the key is missing; None: required)."""


def read_v1(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """`params` (nested dicts of numpy arrays) and `config` of a v1 pickle; nothing in the file is executed.

    **Raises:** `ForeignError` if the file is damaged or names anything but numpy arrays and plain containers.
    """
    return load_arrays(path)


def import_v1(params: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Seq2Seq, ModelConfig]:
    """The model, with float32 masters, and its config. Config keys that do not shape the model are ignored.

    **Raises:** `ForeignError` naming the leaf that is missing, left over, of another shape, not
    floating-point or not finite, or the config key that is missing or unusable; also for speech checkpoints.
    """
    leaves = _flatten(params)
    speech = [path for path in leaves if path.startswith("speech")]
    if speech or config.get("enable_speech"):
        what = f"leaf {speech[0]}" if speech else "config key enable_speech"
        raise ForeignError(f"{what}: speech is not supported yet; import a checkpoint without it")
    ours = _config(config, leaves)
    skeleton = _skeleton(ours)
    theirs = {b: a for a, b in TABLE}
    wanted = [theirs[path] for path in _shapes(skeleton)]
    missing, extra = sorted(set(wanted) - set(leaves)), sorted(set(leaves) - set(wanted))
    if missing or extra:
        raise ForeignError(
            f"the tree does not match its config: leaves missing {missing}, leaves left over {extra}"
        )

    def take(path, want):
        name = theirs[path_name(path)]
        leaf = leaves[name]
        if leaf.shape != want.shape:
            raise ForeignError(f"leaf {name} has shape {leaf.shape}, but its config makes it {want.shape}")
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ForeignError(f"leaf {name} has dtype {leaf.dtype}; parameters are floating-point")
        master = leaf.astype(np.float32)
        if not np.isfinite(master).all():
            raise ForeignError(f"leaf {name} has values that are not finite: the checkpoint is broken")
        return jnp.array(master)

    return jax.tree_util.tree_map_with_path(take, skeleton), ours


def export_v1(
    model: Seq2Seq,
    config: ModelConfig,
    path: str | Path,
    extra: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write `model` as a Needle v1 pickle: float16 tree of numpy arrays and config.

    `extra` adds config keys that we do not have (`max_seq_len`, `confidence_mu`, ...).

    **Raises:** `ForeignError` naming the leaf that v1 has no place for, that does not fit `config` or that
    overflows float16, or the key of `extra` that contradicts `config`; `FileExistsError` if `path` exists and
    `overwrite` is off.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True or choose another name")
    arrays = dict(zip(leaf_paths(model), jax.tree.leaves(eqx.filter(model, eqx.is_array)), strict=True))
    shapes = _shapes(_skeleton(config))
    if odd := sorted(set(arrays) ^ set(shapes)):
        raise ForeignError(f"the model does not match its config: leaves {odd} are in one of them only")
    tree: dict[str, Any] = {}
    for theirs, ours in TABLE:
        if ours not in arrays:
            continue
        if arrays[ours].shape != shapes[ours]:
            raise ForeignError(
                f"leaf {ours} has shape {arrays[ours].shape}, but its config makes it {shapes[ours]}"
            )
        *parents, name = theirs.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = _half(ours, np.asarray(arrays[ours]))
    data = pickle.dumps({"params": tree, "config": _v1_config(config, extra or {})}, protocol=4)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(data)
    os.replace(partial, path)  # a crash never leaves half a checkpoint under the real name


def _flatten(node: Mapping[str, Any], path: str = "") -> dict[str, np.ndarray]:
    flat: dict[str, np.ndarray] = {}
    for key, child in node.items():
        name = f"{path}/{key}" if path else str(key)
        if isinstance(child, Mapping):
            flat |= _flatten(child, name)
        elif isinstance(child, np.ndarray | np.generic):
            flat[name] = np.asarray(child)
        else:
            raise ForeignError(f"leaf {name} is a {type(child).__name__}, not an array")
    return flat


def _skeleton(config: ModelConfig) -> Seq2Seq:
    """The model with shapes in place of arrays."""
    return eqx.filter_eval_shape(lambda key: Seq2Seq(config, key=key), jax.random.key(0))


def _shapes(skeleton: Seq2Seq) -> dict[str, tuple[int, ...]]:
    return {path_name(p): leaf.shape for p, leaf in jax.tree_util.tree_leaves_with_path(skeleton)}


def _config(config: Mapping[str, Any], leaves: Mapping[str, np.ndarray]) -> ModelConfig:
    fields: dict[str, Any] = {}
    for theirs, (ours, kind, default) in CONFIG_TABLE.items():
        value = config.get(theirs, default)
        if value is None:
            raise ForeignError(f"config key {theirs} is missing; without it the model cannot be built")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ForeignError(f"config key {theirs} is {value!r}, a {type(value).__name__}")
        fields[ours] = value
    if fields["activation"] not in get_args(Activation):
        raise ForeignError(
            f"config key activation is {fields['activation']!r}; known are {get_args(Activation)}"
        )
    if config.get("pad_token_id", PAD) != PAD:
        raise ForeignError(f"config key pad_token_id is {config['pad_token_id']}; padding is {PAD} here")
    attention_only = config.get("no_feedforward", not any("FeedForward" in path for path in leaves))
    try:
        return ModelConfig(
            **fields,
            feedforward=not attention_only,
            d_ff=None if attention_only else config.get("d_ff"),
            confidence=any(path.startswith("confidence") for path in leaves),
        )
    except (TypeError, ValueError) as error:
        raise ForeignError(f"the v1 config makes no model: {error}") from None


def _v1_config(config: ModelConfig, extra: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {theirs: getattr(config, ours) for theirs, (ours, _, _) in CONFIG_TABLE.items()}
    fixed |= {"pad_token_id": PAD, "enable_speech": False, "no_feedforward": not config.feedforward}
    if config.feedforward:
        fixed["d_ff"] = config.hidden_ff
    for key, value in fixed.items():
        if key in extra and extra[key] != value:
            raise ForeignError(f"extra config key {key} is {extra[key]!r}, but the model has {value!r}")
    return {"d_ff": config.hidden_ff, "dtype": "float32", **extra, **fixed}


def _half(name: str, leaf: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        half = np.ascontiguousarray(leaf, dtype=np.float16).reshape(leaf.shape)
    if not np.isfinite(half).all():
        worst = leaf.ravel()[np.argmin(np.isfinite(half).ravel())]
        raise ForeignError(f"leaf {name} holds {worst:g}, which float16 cannot (largest 65504): not exported")
    return half
