"""The forward pass once more, the slow way: numpy float64, one position and one head at a time, no jax.

Written from the description of the original (norms, gates, grouping, rotary), reading parameters by their v1
names, so that agreement checks the model, the masks and the table of `checkpoint.foreign` at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Tree = dict[str, Any]
Allowed = Callable[[int, int], bool]
Ids = Sequence[int]


def v1_config(**overrides: Any) -> Tree:
    """A tiny v1 config."""
    config = {
        "vocab_size": 19, "d_model": 16, "num_heads": 4, "num_kv_heads": 2, "num_encoder_layers": 2,
        "num_decoder_layers": 3, "d_ff": 10, "max_seq_len": 32, "pad_token_id": 0, "rope_theta": 10000.0,
        "dtype": "float32", "activation": "swiglu", "num_memory_slots": 64, "n_mels": 80, "dropout_rate": 0.0,
        "contrastive_dim": 6, "enable_speech": False, "no_feedforward": True,
    }  # fmt: skip
    return config | overrides


def v1_tree(config: Tree, make: Callable[[tuple[int, ...]], np.ndarray], confidence: bool = False) -> Tree:
    """Parameters with every leaf drawn by `make(shape)`: nothing is at its start value."""
    d, f, v, m = config["d_model"], config["d_ff"], config["vocab_size"], config["contrastive_dim"]
    h, k = config["num_heads"], config["num_kv_heads"]
    c = d // h

    def attention(n: int) -> Tree:
        shapes = {"q_proj": (d, h * c), "k_proj": (d, k * c), "v_proj": (d, k * c), "out_proj": (h * c, d)}
        tree: Tree = {name: {"kernel": make((n, *shape))} for name, shape in shapes.items()}
        return tree | {name: {"scale": make((n, c))} for name in ("q_norm", "k_norm")}

    def feedforward(n: int, norm: str) -> Tree:
        if config["no_feedforward"]:
            return {}
        shapes = {"gate_proj": (d, f), "up_proj": (d, f), "down_proj": (f, d)}
        layer = {name: {"kernel": make((n, *shape))} for name, shape in shapes.items()}
        return {"FeedForward_0": layer, "ffn_gate": make((n,)), norm: {"scale": make((n, d))}}

    n = config["num_encoder_layers"]
    encoder = {"ZCRMSNorm_0": {"scale": make((n, d))}, "attn_gate": make((n,)), "self_attn": attention(n)}
    encoder |= feedforward(n, "ZCRMSNorm_1")
    n = config["num_decoder_layers"]
    decoder: Tree = {name: {"scale": make((n, d))} for name in ("ZCRMSNorm_0", "ZCRMSNorm_1")}
    decoder |= {"self_attn": attention(n), "cross_attn": attention(n)}
    decoder |= {"self_attn_gate": make((n,)), "cross_attn_gate": make((n,)), **feedforward(n, "ZCRMSNorm_2")}
    tree = {
        "embedding": {"embedding": make((v, d))},
        "encoder": {"layers": {"EncoderBlock_0": encoder}, "final_norm": {"scale": make((d,))}},
        "decoder": {"layers": {"DecoderBlock_0": decoder}, "ZCRMSNorm_0": {"scale": make((d,))}},
        "contrastive_hidden": {"kernel": make((d, d // 4)), "bias": make((d // 4,))},
        "contrastive_proj": {"kernel": make((d // 4, m))},
        "log_temp": make(()),
    }
    if confidence:
        tree["confidence_hidden"] = {"kernel": make((d, d // 4)), "bias": make((d // 4,))}
        tree["confidence_out"] = {"kernel": make((d // 4, 1)), "bias": make((1,))}
    return tree


def drawn(seed: int, scale: float = 0.4) -> Callable[[tuple[int, ...]], np.ndarray]:
    """Leaves from a normal distribution, float32."""
    rng = np.random.default_rng(seed)
    return lambda shape: (scale * rng.standard_normal(shape)).astype(np.float32)


def layer_of(tree: Any, i: int) -> Any:
    return {k: layer_of(v, i) for k, v in tree.items()} if isinstance(tree, dict) else np.float64(tree[i])


def norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    square = sum(float(value) ** 2 for value in x) / len(x)
    return np.array(
        [(1 + float(s)) * float(value) / math.sqrt(square + 1e-6) for s, value in zip(scale, x, strict=True)]
    )


def turn(x: np.ndarray, position: int, base: float) -> np.ndarray:
    """Rotary: channel i with channel i + half."""
    half = len(x) // 2
    y = np.zeros_like(x)
    for i in range(half):
        angle = position / base ** (2 * i / len(x))
        y[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        y[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return y


def attention(p: Tree, config: Tree, xs, memory, allowed: Allowed, rotary: bool) -> list[np.ndarray]:
    h, k = config["num_heads"], config["num_kv_heads"]
    c = config["d_model"] // h

    def head(x: np.ndarray, name: str, index: int) -> np.ndarray:
        return x @ p[f"{name}_proj"]["kernel"][:, index * c : (index + 1) * c]

    def placed(x: np.ndarray, position: int) -> np.ndarray:
        return turn(x, position, config.get("rope_theta", 10000.0)) if rotary else x

    keys = [
        [placed(norm(head(m, "k", g), p["k_norm"]["scale"]), j) for g in range(k)]
        for j, m in enumerate(memory)
    ]
    values = [[head(m, "v", g) for g in range(k)] for m in memory]
    out = []
    for i, x in enumerate(xs):
        readable = [j for j in range(len(memory)) if allowed(i, j)]
        heads = []
        for index in range(h):
            group = index // (h // k)
            q = placed(norm(head(x, "q", index), p["q_norm"]["scale"]), i)
            scores = [float(q @ keys[j][group]) / math.sqrt(c) for j in readable]
            exps = [math.exp(s - max(scores)) for s in scores]
            heads.append(
                sum(
                    (e / sum(exps) * values[j][group] for e, j in zip(exps, readable, strict=True)),
                    np.zeros(c),
                )
            )
        out.append(np.concatenate(heads) @ p["out_proj"]["kernel"])
    return out


def feedforward(p: Tree, config: Tree, x: np.ndarray, width: int) -> np.ndarray:
    gate, up = x @ p["gate_proj"]["kernel"], x @ p["up_proj"]["kernel"]
    hidden = np.zeros(len(gate))
    for i in range(width):
        a, b = float(gate[i]), float(up[i])
        match config["activation"]:
            case "swiglu":
                hidden[i] = a / (1 + math.exp(-a)) * b
            case "geglu":
                hidden[i] = 0.5 * a * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) * b
            case "drelu":
                hidden[i] = max(a, 0) * max(b, 0)
    return hidden @ p["down_proj"]["kernel"]


def gated(xs: list[np.ndarray], gate: np.ndarray, ys: list[np.ndarray]) -> list[np.ndarray]:
    return [x + y / (1 + math.exp(-float(gate))) for x, y in zip(xs, ys, strict=True)]


def embed(tree: Tree, config: Tree, tokens) -> list[np.ndarray]:
    table = np.asarray(tree["embedding"]["embedding"], np.float64)
    return [table[t] * math.sqrt(config["d_model"]) for t in tokens]


def run_ffn(p: Tree, config: Tree, xs, scale: str, width: int | None) -> list[np.ndarray]:
    if config["no_feedforward"]:
        return xs
    k = config["d_ff"] if width is None else width
    ys = [feedforward(p["FeedForward_0"], config, norm(x, p[scale]["scale"]), k) for x in xs]
    return gated(xs, p["ffn_gate"], ys)


def encode(
    tree: Tree, config: Tree, tokens, segments: Ids = (), width: int | None = None
) -> list[np.ndarray]:
    """Encoder states, a vector a position. Without segments, id 0 is padding that nobody reads."""

    def allowed(i: int, j: int) -> bool:
        return tokens[j] != 0 if not segments else segments[i] == segments[j] != 0

    xs = embed(tree, config, tokens)
    for i in range(config["num_encoder_layers"]):
        p = layer_of(tree["encoder"]["layers"]["EncoderBlock_0"], i)
        ys = [norm(x, p["ZCRMSNorm_0"]["scale"]) for x in xs]
        xs = gated(xs, p["attn_gate"], attention(p["self_attn"], config, ys, ys, allowed, rotary=True))
        xs = run_ffn(p, config, xs, "ZCRMSNorm_1", width)
    return [norm(x, tree["encoder"]["final_norm"]["scale"]) for x in xs]


def logits(
    tree: Tree, config: Tree, source, target, source_seg: Ids = (), target_seg: Ids = (), width=None
) -> np.ndarray:
    """Logits [t, v]."""
    memory = encode(tree, config, source, source_seg, width)

    def own(i: int, j: int) -> bool:
        return j <= i and (target[j] != 0 if not target_seg else target_seg[i] == target_seg[j] != 0)

    def cross(i: int, j: int) -> bool:
        return source[j] != 0 if not target_seg else target_seg[i] == source_seg[j] != 0

    xs = embed(tree, config, target)
    for i in range(config["num_decoder_layers"]):
        p = layer_of(tree["decoder"]["layers"]["DecoderBlock_0"], i)
        ys = [norm(x, p["ZCRMSNorm_0"]["scale"]) for x in xs]
        xs = gated(xs, p["self_attn_gate"], attention(p["self_attn"], config, ys, ys, own, rotary=True))
        ys = [norm(x, p["ZCRMSNorm_1"]["scale"]) for x in xs]
        xs = gated(
            xs, p["cross_attn_gate"], attention(p["cross_attn"], config, ys, memory, cross, rotary=False)
        )
        xs = run_ffn(p, config, xs, "ZCRMSNorm_2", width)
    table = np.asarray(tree["embedding"]["embedding"], np.float64)
    return np.array([norm(x, tree["decoder"]["ZCRMSNorm_0"]["scale"]) @ table.T for x in xs])


def pooled(tree: Tree, config: Tree, tokens) -> np.ndarray:
    states = encode(tree, config, tokens)
    real = [s for s, t in zip(states, tokens, strict=True) if t != 0]
    return sum(real, np.zeros(config["d_model"])) / len(real)


def dense(p: Tree, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(p["kernel"], np.float64) + p.get("bias", 0)


def retrieval(tree: Tree, config: Tree, tokens) -> np.ndarray:
    """Unit embedding of the contrastive head."""
    hidden = np.maximum(dense(tree["contrastive_hidden"], pooled(tree, config, tokens)), 0)
    out = dense(tree["contrastive_proj"], hidden)
    return out / math.sqrt(sum(float(value) ** 2 for value in out))


def confidence(tree: Tree, config: Tree, tokens) -> float:
    hidden = np.maximum(dense(tree["confidence_hidden"], pooled(tree, config, tokens)), 0)
    (score,) = dense(tree["confidence_out"], hidden)
    return 1 / (1 + math.exp(-float(score)))
