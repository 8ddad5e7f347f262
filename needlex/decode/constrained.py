"""Decoding under grammars: each row follows its own, forced tokens cost no choice, finished rows leave the batch.

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

from needlex.decode.engine import EOS, PROMPT, Cache, start, step
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
    model = eqx.combine(params, static)
    caches = jax.vmap(lambda e: start(model, e, length))(encoder)
    prompt = jnp.broadcast_to(jnp.array(PROMPT), (encoder.shape[0], len(PROMPT)))
    logits, caches = jax.vmap(partial(step, model), in_axes=(0, 0, None))(caches, prompt, jnp.array(0))
    return logits[:, -1], caches


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

    `matchers` are fresh, one a row, with a budget of at most `budget` tokens each, the end included.
    """
    params, static = eqx.partition(model, eqx.is_array)
    n, size = len(matchers), _bucket(len(matchers), ROWS)
    words = matchers[0].grammar.vocabulary.words
    encoder = jnp.concatenate([encoder, jnp.broadcast_to(encoder[:1], (size - n, encoder.shape[1]))])
    length = -(-(len(PROMPT) + budget + MOST_TOKENS) // 64) * 64
    last, caches = _begin(params, static, encoder, length)
    tokens: list[list[int]] = [[] for _ in matchers]
    scores, forced = np.zeros(n), np.zeros(n, int)
    active = list(range(n))
    """Rows by their place in the batch; places behind are filled up with copies of the first."""
    gains: list[tuple[list[int], Array]] = []
    while True:
        masks = np.zeros((size, words), np.int32)
        for place, row in enumerate(active):
            matchers[row].fill(masks[place])
        masks[len(active) :] = masks[0]
        chosen, ends = (np.asarray(x) for x in _choose(last, masks))
        fed: list[list[int]] = []
        left: list[int] = []
        for place, row in enumerate(active):
            matcher, token = matchers[row], int(chosen[place])
            matcher.consume(token)
            if token == EOS:
                scores[row] += ends[place]
                continue
            more = matcher.forced()[: MOST_TOKENS - 1]
            more = more[: more.index(EOS)] if EOS in more else more
            for t in more:
                matcher.consume(t)
            forced[row] += len(more)
            tokens[row] += [token, *more]
            fed.append([token, *more])
            left.append(place)
        if not left:
            break
        if len(left) < len(active):  # finished rows leave; copies that nobody reads fill the batch up
            size = _bucket(len(left), ROWS)
            order = left + left[:1] * (size - len(left))
            last, caches = _keep((last, caches), jnp.array(order))
            active = [active[place] for place in left]
        fed += [fed[0]] * (size - len(fed))
        counts = np.array([len(f) for f in fed], np.int32)
        block = np.zeros((size, _bucket(int(counts.max()), TOKENS)), np.int32)
        for place, row_tokens in enumerate(fed):
            block[place, : len(row_tokens)] = row_tokens
        done = np.array([len(tokens[row]) for row in active], np.int32)
        done = np.concatenate([done, np.repeat(done[:1], size - len(done))])
        positions = len(PROMPT) + done - counts
        last, gained, caches = _advance(params, static, caches, last, block, counts, positions)
        gains.append((active, gained))  # the device is at work: nothing is waited for until the next choice
    for rows, gained in gains:
        scores[rows] += np.asarray(gained)[: len(rows)]
    return [
        Answer(t, m.finished, float(s), int(f))
        for t, m, s, f in zip(tokens, matchers, scores, forced, strict=True)
    ]


def _bucket(n: int, sizes: tuple[int, ...]) -> int:
    """The least of `sizes` that holds `n`; above them, multiples of the last."""
    return next((s for s in sizes if s >= n), -(-n // sizes[-1]) * sizes[-1])
