"""Decoding under grammars: each row follows its own, forced tokens cost no choice, a batch shrinks with its rows.

The device computes the next logits while the masks for them are made: what comes next is known from the tokens
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from needlex.decode.engine import EOS, PROMPT, Cache, prefill, step
from needlex.decode.grammar import Matcher
from needlex.model.seq2seq import Seq2Seq

ROWS, TOKENS = (1, 32), (1, 8)
"""Rows of a batch and tokens of a step that are compiled. Few: a program costs more than the rows it would save."""
MOST_TOKENS = TOKENS[-1]


class Answer(NamedTuple):
    """What came out for one row."""

    tokens: list[int]
    """Without the end."""
    finished: bool
    log_probability: float
    """Sum of the log-probabilities that the model itself gave to the tokens and the end, nats."""
    forced: int
    """Tokens that the grammar left no choice about."""


@partial(jax.jit, static_argnames=("static", "length"))
def _begin(
    params: Any, static: Any, encoder: Int[Array, "b e"], length: int
) -> tuple[Float[Array, "b v"], Cache]:
    return prefill(eqx.combine(params, static), encoder, length)


@partial(jax.jit, static_argnames=("static",), donate_argnames=("caches",))
def _advance(
    params: Any, static: Any, caches: Cache, last: Float[Array, "b v"], tokens: Int[Array, "b t"],
    counts: Int[Array, "b"], positions: Int[Array, "b"],
) -> tuple[Float[Array, "b v"], Float[Array, "b"], Cache]:  # fmt: skip
    """Feed the first `counts` of `tokens` to each row; the logits after them and the log-probability of them.

    What is behind `counts` is written behind the row's end, where the next tokens overwrite it before it is read.
    """
    model = eqx.combine(params, static)
    logits, caches = jax.vmap(partial(step, model))(caches, tokens, positions)
    told = jnp.concatenate([last[:, None], logits[:, :-1]], axis=1)
    scores = jnp.take_along_axis(jax.nn.log_softmax(told), tokens[:, :, None], axis=-1)[..., 0]
    real = jnp.arange(tokens.shape[1])[None, :] < counts[:, None]
    after = jnp.take_along_axis(logits, (counts - 1)[:, None, None], axis=1)[:, 0]
    return after, jnp.sum(jnp.where(real, scores, 0), axis=1), caches


@jax.jit
def _choose(last: Float[Array, "b v"], masks: Int[Array, "b w"]) -> tuple[Int[Array, "b"], Float[Array, "b"]]:
    """The most likely admitted token of each row, and the log-probability of the end."""
    bits = (masks[:, :, None] >> jnp.arange(32)[None, None, :]) & 1
    admitted = bits.reshape(masks.shape[0], -1)[:, : last.shape[1]] == 1
    chosen = jnp.argmax(jnp.where(admitted, last, -jnp.inf), axis=1)
    return chosen, jax.nn.log_softmax(last)[:, EOS]


@jax.jit
def _keep(tree: Any, rows: Int[Array, "n"]) -> Any:
    return jax.tree.map(lambda x: x[rows], tree)


def generate_constrained(
    model: Seq2Seq, encoder: Int[Array, "b e"], matchers: Sequence[Matcher], budget: int
) -> list[Answer]:
    """Most likely admitted answers, token by token, for a batch of encoder inputs (padded with 0).

    `matchers` are fresh, one a row; none may write more than `budget` tokens before its end.
    """
    params, static = eqx.partition(model, eqx.is_array)
    n, size = len(matchers), _bucket(len(matchers), ROWS)
    words = matchers[0].grammar.vocabulary.words
    encoder = jnp.pad(encoder, ((0, size - n), (0, 0)))
    length = -(-(len(PROMPT) + budget + MOST_TOKENS) // 64) * 64
    last, caches = _begin(params, static, encoder, length)
    tokens: list[list[int]] = [[] for _ in matchers]
    scores, forced = np.zeros(n), np.zeros(n, int)
    live = dict(enumerate(range(n)))
    """Rows that go on, by their place in the batch. What stands at other places is read by nobody."""
    gains: list[tuple[dict[int, int], Array]] = []
    while live:
        masks = np.zeros((size, words), np.int32)
        for place, row in live.items():
            matchers[row].fill(masks[place])
        chosen, ends = (np.asarray(x) for x in _choose(last, masks))
        block = np.zeros((size, MOST_TOKENS), np.int32)
        counts, positions = np.ones(size, np.int32), np.zeros(size, np.int32)
        for place, row in list(live.items()):
            matcher, token = matchers[row], int(chosen[place])
            matcher.consume(token)
            if token == EOS:
                scores[row] += ends[place]
                del live[place]
                continue
            more = matcher.forced()[: MOST_TOKENS - 1]
            more = more[: more.index(EOS)] if EOS in more else more
            for t in more:
                matcher.consume(t)
            forced[row] += len(more)
            counts[place], positions[place] = 1 + len(more), len(PROMPT) + len(tokens[row])
            block[place, : counts[place]] = token, *more
            tokens[row] += [token, *more]
        if not live:
            break
        if (smaller := _bucket(len(live), ROWS)) < size:
            order = np.array([*live, *[0] * (smaller - len(live))])
            last, caches = _keep((last, caches), order)
            block, counts, positions = block[order], counts[order], positions[order]
            live, size = dict(enumerate(live.values())), smaller
        block = block[:, : _bucket(int(counts.max()), TOKENS)]
        last, gained, caches = _advance(params, static, caches, last, block, counts, positions)
        gains.append(
            (live.copy(), gained)
        )  # the device is at work: nothing is waited for until the next choice
    for places, gained in gains:
        scores[list(places.values())] += np.asarray(gained)[list(places)]
    return [
        Answer(t, m.finished, float(s), int(f))
        for t, m, s, f in zip(tokens, matchers, scores, forced, strict=True)
    ]


def _bucket(n: int, sizes: tuple[int, ...]) -> int:
    """The least of `sizes` that holds `n`; above them, multiples of the last."""
    return next((s for s in sizes if s >= n), -(-n // sizes[-1]) * sizes[-1])
