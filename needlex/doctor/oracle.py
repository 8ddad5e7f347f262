"""The forward pass once more, for the doctor: numpy float64 on float32 weights, one device, causal, nothing fused.

Written from the definitions and not from `nn`, so that the two can disagree. Every operation has a name, its inputs
and its result, in the order in which a forward pass does them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from needlex.model.config import ModelConfig

Arrays = Mapping[str, np.ndarray]


class Row(NamedTuple):
    """One packed row: ids and segments (0 is padding) of both sides."""

    encoder: np.ndarray
    decoder: np.ndarray
    encoder_segments: np.ndarray
    decoder_segments: np.ndarray


class Operation(NamedTuple):
    """What one operation of the forward pass gives for which inputs."""

    layer: str
    name: str
    inputs: dict[str, np.ndarray]
    result: np.ndarray


def norm(x: np.ndarray, scale: np.ndarray, epsilon: float) -> np.ndarray:
    return (1 + scale) * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)


def rotate(x: np.ndarray, base: float) -> np.ndarray:
    """[t, heads, c]: channel i turns with channel i + c/2, by position / base^(2i/c)."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[0])[:, None] / base ** (2 * np.arange(half)[None] / x.shape[-1])
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def read(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[t, h, c] queries on [s, k, c] keys and values, heads j r to j r + r - 1 on key-value head j; zeros where nothing may be read."""
    out = np.zeros_like(q)
    group = q.shape[1] // k.shape[1]
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // group].T / np.sqrt(q.shape[-1])
        scores = np.where(mask, scores, -np.inf)
        top = np.max(scores, axis=1, keepdims=True, initial=-1e300)
        weights = np.where(mask, np.exp(scores - top), 0)
        total = weights.sum(axis=1, keepdims=True)
        out[:, head] = (
            np.divide(weights, total, out=np.zeros_like(weights), where=total > 0) @ v[:, head // group]
        )
    return out


def activation(kind: str, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    if kind == "swiglu":
        return gate / (1 + np.exp(-gate)) * up
    if kind == "geglu":
        return 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) * up
    return np.maximum(gate, 0) * np.maximum(up, 0)


class Oracle:
    """Runs one row and writes down every operation."""

    def __init__(self, arrays: Arrays, config: ModelConfig):
        """`arrays` are the weights by leaf path, layers stacked on axis 0."""
        self._arrays = {k: np.asarray(v, np.float64) for k, v in arrays.items()}
        self._config = config
        self.operations: list[Operation] = []

    def _note(self, layer: str, name: str, result: np.ndarray, **inputs: np.ndarray) -> np.ndarray:
        self.operations.append(Operation(layer, name, inputs, result))
        return result

    def _attention(
        self, layer: str, p: dict[str, Any], part: str, x, memory, mask, rotary: bool
    ) -> np.ndarray:
        c, eps = self._config, self._config.norm_epsilon
        size = c.d_model // c.heads

        def heads(which: str, source: np.ndarray, count: int) -> np.ndarray:
            flat = self._note(layer, f"{part}.{which}", source @ p[f"{part}.{which}.weight"], x=source)
            return flat.reshape(len(source), count, size)

        def placed(which: str, y: np.ndarray, source: np.ndarray) -> np.ndarray:
            y = norm(y, p[f"{part}.{which}_norm.scale"], eps)
            y = rotate(y, c.rope_base) if rotary else y
            return self._note(layer, f"{part}.{which} norm and rotary", y, x=source)

        q = placed("query", heads("query", x, c.heads), x)
        k = placed("key", heads("key", memory, c.kv_heads), memory)
        v = heads("value", memory, c.kv_heads)
        got = self._note(
            layer,
            f"{part} softmax and read",
            read(q, k, v, mask).reshape(len(x), -1),
            q=q,
            k=k,
            v=v,
            mask=mask,
        )
        return self._note(layer, f"{part}.out", got @ p[f"{part}.out.weight"], x=got)

    def _gated(self, layer: str, name: str, x: np.ndarray, gate: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._note(layer, name, x + y / (1 + np.exp(-gate)), x=x, y=y)

    def _feedforward(self, layer: str, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        if not self._config.feedforward:
            return x
        y = self._note(
            layer, "feedforward.norm", norm(x, p["feedforward.norm.scale"], self._config.norm_epsilon), x=x
        )
        gate, up = y @ p["feedforward.layer.gate.weight"], y @ p["feedforward.layer.up.weight"]
        hidden = activation(self._config.activation, gate, up) @ p["feedforward.layer.down.weight"]
        self._note(layer, "feedforward.layer", hidden, x=y)
        return self._gated(layer, "feedforward gate", x, p["feedforward.gate"], hidden)

    def _layer(self, prefix: str, i: int) -> dict[str, np.ndarray]:
        return {k.removeprefix(prefix): v[i] for k, v in self._arrays.items() if k.startswith(prefix)}

    def _block(self, layer: str, result: np.ndarray, x: np.ndarray, **inputs: np.ndarray) -> np.ndarray:
        return self._note(layer, "", result, x=x, **inputs)

    def encode(self, tokens: np.ndarray, segments: np.ndarray) -> np.ndarray:
        """Encoder states of the row."""
        a, eps = self._arrays, self._config.norm_epsilon
        x = self._note(
            "encoder", "embedding", a["embedding.weight"][tokens] * self._config.d_model**0.5, tokens=tokens
        )
        mask = (segments[:, None] == segments[None]) & (segments[None] != 0)
        self._note("encoder", "mask", mask, tokens=tokens, segments=segments)
        for i in range(self._config.encoder_layers):
            name, p, before = f"encoder.layers[{i}]", self._layer("encoder.layers.", i), x
            y = self._note(name, "norm", norm(x, p["norm.scale"], eps), x=x)
            x = self._gated(
                name, "gate", x, p["gate"], self._attention(name, p, "attention", y, y, mask, True)
            )
            x = self._block(name, self._feedforward(name, p, x), before, mask=mask)
        return self._note("encoder", "norm", norm(x, a["encoder.norm.scale"], eps), x=x)

    def run(self, row: Row) -> np.ndarray:
        """Logits [t, v] of the row."""
        a, eps = self._arrays, self._config.norm_epsilon
        memory = self.encode(row.encoder, row.encoder_segments)
        x = self._note(
            "decoder",
            "embedding",
            a["embedding.weight"][row.decoder] * self._config.d_model**0.5,
            tokens=row.decoder,
        )
        same = (row.decoder_segments[:, None] == row.decoder_segments[None]) & (
            row.decoder_segments[None] != 0
        )
        own = same & (np.arange(len(x))[:, None] >= np.arange(len(x))[None])
        across = (row.decoder_segments[:, None] == row.encoder_segments[None]) & (
            row.encoder_segments[None] != 0
        )
        sides = {
            "tokens": row.decoder,
            "segments": row.decoder_segments,
            "memory_segments": row.encoder_segments,
        }
        self._note("decoder", "causal mask", own, **sides)
        self._note("decoder", "cross mask", across, **sides)
        for i in range(self._config.decoder_layers):
            name, p, before = f"decoder.layers[{i}]", self._layer("decoder.layers.", i), x
            y = self._note(name, "self_norm", norm(x, p["self_norm.scale"], eps), x=x)
            x = self._gated(
                name,
                "self_gate",
                x,
                p["self_gate"],
                self._attention(name, p, "self_attention", y, y, own, True),
            )
            y = self._note(name, "cross_norm", norm(x, p["cross_norm.scale"], eps), x=x)
            y = self._attention(name, p, "cross_attention", y, memory, across, False)
            x = self._gated(name, "cross_gate", x, p["cross_gate"], y)
            x = self._block(
                name, self._feedforward(name, p, x), before, memory=memory, own=own, across=across
            )
        x = self._note("decoder", "norm", norm(x, a["decoder.norm.scale"], eps), x=x)
        return self._note("decoder", "logits", x @ a["embedding.weight"].T, x=x)

    def embed(self, tokens: np.ndarray) -> np.ndarray:
        """Retrieval embedding of unpadded tokens, unit length."""
        a = self._arrays
        pooled = self.encode(tokens, np.ones(len(tokens), int)).mean(axis=0)
        hidden = self._note(
            "contrastive",
            "hidden",
            pooled @ a["contrastive.hidden.weight"] + a["contrastive.hidden.bias"],
            x=pooled,
        )
        out = np.maximum(hidden, 0) @ a["contrastive.out.weight"]
        return self._note("contrastive", "", out / max(np.sqrt(np.sum(out * out)), 1e-8), x=pooled)
