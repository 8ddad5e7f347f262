"""The decoding loop: one for answers under a grammar and for free ones, greedy or sampled, alone or in batches.

Tokens that the grammar leaves no choice about are fed in one step together with the one before them. The device
computes the next logits while the masks for them are made: what comes next is known from the tokens alone. Rows that
end leave the batch.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from needlex.decode.engine import EOS, PROMPT, Cache, Engine, prefill, step
from needlex.types import Key

ROWS, MOST_TOKENS = (1, 8, 32), 8
"""Rows of a batch that are compiled, and tokens of a wide step. Few: a program costs more than the rows it would save."""
WIDE_FROM = 1.7, 2.7
"""Tokens a row from which a wide step pays, for one row and for more: how many narrow steps cost as much."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn from what is admitted."""

    temperature: float = 0.0
    """0 takes the most likely token; 1 draws as the model says; more is more even."""
    top_p: float = 1.0
    """Draw among the most likely tokens that together have this probability (nucleus sampling, Holtzman et al. 2020)."""
    seed: int = 0
    """The same seed gives the same answer to the same row, whatever else is in its batch."""

    def __post_init__(self):
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(
                f"temperature is {self.temperature}; it must be 0 (the most likely token) or more"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0 and at most 1 (1: all tokens)")


GREEDY = Sampling()
"""The most likely token each time."""


@runtime_checkable
class Guide(Protocol):
    """Says what may come next in one answer; `grammar.Matcher` is one."""

    @property
    def finished(self) -> bool: ...
    def fill(self, row: np.ndarray) -> None:
        """Set the bits of the admitted tokens in int32 words."""

    def consume(self, token: int) -> None: ...
    def forced(self) -> list[int]:
        """Tokens, perhaps the end, that must come next."""
        ...


class Free:
    """A guide that admits every token."""

    def __init__(self) -> None:
        self.finished = False

    def fill(self, row: np.ndarray) -> None:
        row[:] = -1

    def consume(self, token: int) -> None:
        self.finished = token == EOS

    def forced(self) -> list[int]:
        return []


class Answer(NamedTuple):
    """What came out for one row."""

    tokens: list[int]
    """Without the end."""
    finished: bool
    """Whether it ended within the budget."""
    scores: np.ndarray
    """Log-probability that the model itself gave to each token, and at last to the end if there is one, nats."""
    forced: int
    """Tokens that the grammar left no choice about."""

    @property
    def log_probability(self) -> float:
        return float(self.scores.sum())


Steps = Generator[list[tuple[int, list[int]]], None, list[Answer]]
"""Yields what each step wrote, as (row, tokens); returns the answers."""


@partial(jax.jit, static_argnames=("static", "length"))
def _begin(
    params: Any, weights: Any, static: Any, encoder: Int[Array, "b e"], length: int
) -> tuple[Float[Array, "b v"], Cache]:
    return prefill(params, weights, static, encoder, length)


@partial(jax.jit, donate_argnames=("cache",))
def _advance(
    weights: Any, cache: Cache, last: Float[Array, "b v"], tokens: Int[Array, "b t"],
    counts: Int[Array, "b"], positions: Int[Array, "b"],
) -> tuple[Float[Array, "b v"], Float[Array, "b t"], Cache]:  # fmt: skip
    """Feed the first `counts` of `tokens` to each row; the logits after them and the log-probability of each.

    What is behind `counts` is written behind the row's end, where the next tokens overwrite it before it is read.
    """
    logits, cache = step(weights, cache, tokens, positions)
    told = jnp.concatenate([last[:, None], logits[:, :-1]], axis=1)
    scores = jnp.take_along_axis(told, tokens[:, :, None], axis=-1)[..., 0] - jax.nn.logsumexp(told, axis=-1)
    after = jnp.take_along_axis(logits, (counts - 1)[:, None, None], axis=1)[:, 0]
    return after, scores, cache


@jax.jit
def _choose(last: Float[Array, "b v"], masks: Int[Array, "b w"]) -> tuple[Int[Array, "b"], Float[Array, "b"]]:
    """The most likely admitted token of each row, and the log-probability of the end."""
    chosen = jnp.argmax(_admitted(last, masks), axis=1)
    return chosen, last[:, EOS] - jax.nn.logsumexp(last, axis=1)


@jax.jit
def _draw(
    last: Float[Array, "b v"], masks: Int[Array, "b w"], key: Key, rows: Int[Array, "b"], positions: Int[Array, "b"],
    temperature: Float[Array, ""], top_p: Float[Array, ""],
) -> tuple[Int[Array, "b"], Float[Array, "b"]]:  # fmt: skip
    """As `_choose`, drawn; the randomness depends on seed, row and position alone."""
    logits = _admitted(last, masks) / temperature

    def one(logits: Float[Array, "v"], row: Int[Array, ""], position: Int[Array, ""]) -> Int[Array, ""]:
        order = jnp.argsort(-logits)
        likely = jax.nn.softmax(logits[order])
        # A token stays if those before it have less than top_p: the first one always does.
        kept = jnp.where(jnp.cumsum(likely) - likely < top_p, logits[order], -jnp.inf)
        return order[jr.categorical(jr.fold_in(jr.fold_in(key, row), position), kept)]

    return jax.vmap(one)(logits, rows, positions), last[:, EOS] - jax.nn.logsumexp(last, axis=1)


def _admitted(last: Float[Array, "b v"], masks: Int[Array, "b w"]) -> Float[Array, "b v"]:
    bits = (masks[:, :, None] >> jnp.arange(32)[None, None, :]) & 1
    return jnp.where(bits.reshape(masks.shape[0], -1)[:, : last.shape[1]] == 1, last, -jnp.inf)


@jax.jit
def _keep(tree: Any, rows: Int[Array, "n"]) -> Any:
    return jax.tree.map(lambda x: x[rows], tree)


def decode(
    engine: Engine, encoder: np.ndarray, guides: Sequence[Guide], budget: int, sampling: Sampling = GREEDY,
    numbers: Sequence[int] | None = None,
) -> Steps:  # fmt: skip
    """Decode a batch of encoder inputs (int32 [b, e], padded with 0) step by step.

    `guides` are fresh, one a row. An answer has at most `budget` tokens, its end not counted. `numbers` are what the
    randomness of each row depends on (0, 1, ... if not given).

    **Raises:** `ValueError` when no token is allowed.
    """
    if budget < 1:
        raise ValueError(f"max_new is {budget}; at least one token must be allowed")
    numbers = range(len(guides)) if numbers is None else numbers
    n, size = len(guides), bucket(len(guides), ROWS)
    words = -(-engine.vocab_size // 32)
    key = jr.key(sampling.seed) if sampling.temperature else None
    length = cache_length(budget)
    padded = np.zeros((size, encoder.shape[1]), np.int32)
    padded[:n] = encoder
    last, cache = _begin(engine.params, engine.weights, engine.static, padded, length)
    tokens: list[list[int]] = [[] for _ in guides]
    queues: list[list[int]] = [[] for _ in guides]
    """Tokens that are decided and not fed."""
    ends, forced = np.full(n, np.nan), np.zeros(n, int)
    live = dict(enumerate(range(n)))
    """Rows that go on, by their place in the batch. What stands at other places is read by nobody."""
    gains: list[tuple[dict[int, int], np.ndarray, Array]] = []
    while live:
        open_rows = [(place, row) for place, row in live.items() if not queues[row]]
        written: list[tuple[int, list[int]]] = []
        if open_rows:
            masks = np.zeros((size, words), np.int32)
            for place, row in open_rows:
                guides[row].fill(masks[place])
            if key is None:
                picked = _choose(last, masks)
            else:
                rows, at = np.zeros(size, np.int32), np.zeros(size, np.int32)
                for place, row in open_rows:
                    rows[place], at[place] = numbers[row], len(tokens[row])
                picked = _draw(last, masks, key, rows, at, sampling.temperature, sampling.top_p)
            chosen, end = (np.asarray(x) for x in picked)
            for place, row in open_rows:
                token, left = int(chosen[place]), budget - len(tokens[row])
                new = _follow(guides[row], token) if token == EOS or left else []
                if not new:
                    ends[row] = end[place] if token == EOS else np.nan
                    del live[place]
                    continue
                new = new[:left]
                forced[row] += len(new) - 1
                tokens[row] += new
                queues[row] = new
                written.append((row, new))
        if not live:
            break
        if (smaller := bucket(len(live), ROWS)) < size:
            order = np.array([*live, *[0] * (smaller - len(live))])
            last, cache = _keep((last, cache), order)
            live, size = dict(enumerate(live.values())), smaller
        block, counts, positions = _next_block(live, tokens, queues, size)
        last, gained, cache = _advance(engine.weights, cache, last, block, counts, positions)
        gains.append((live.copy(), counts, gained))
        if written:
            yield written  # the device is at work: nothing is waited for until the next choice
    scores: list[list[float]] = [[] for _ in guides]
    for places, counts, gained in gains:
        found = np.asarray(gained)
        for place, row in places.items():
            scores[row] += found[place, : counts[place]].tolist()
    for row in range(n):
        scores[row] += [] if np.isnan(ends[row]) else [float(ends[row])]
    return [
        Answer(t, g.finished, np.array(s), int(f))
        for t, g, s, f in zip(tokens, guides, scores, forced, strict=True)
    ]


def _follow(guide: Guide, token: int) -> list[int]:
    """The chosen token and those that must follow it; nothing after the end."""
    guide.consume(token)
    if token == EOS:
        return []
    new = [token]
    for t in guide.forced():
        if t == EOS:  # is chosen in the next round, for its log-probability
            break
        guide.consume(t)
        new.append(t)
    return new


def _next_block(
    live: dict[int, int], tokens: list[list[int]], queues: list[list[int]], size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take the next tokens from the queues: the block, how many of each row are real, and where they stand."""
    ready = sum(min(len(queues[row]), MOST_TOKENS) for row in live.values())
    width = MOST_TOKENS if ready >= WIDE_FROM[size > 1] * len(live) else 1
    block = np.zeros((size, width), np.int32)
    counts, positions = np.ones(size, np.int32), np.zeros(size, np.int32)
    for place, row in live.items():
        fed, queues[row] = queues[row][:width], queues[row][width:]
        block[place, : len(fed)] = fed
        counts[place] = len(fed)
        positions[place] = len(PROMPT) + len(tokens[row]) - len(queues[row]) - len(fed)
    return block, counts, positions


def generate(
    engine: Engine, encoder: np.ndarray, guides: Sequence[Guide], budget: int, sampling: Sampling = GREEDY,
    numbers: Sequence[int] | None = None,
) -> list[Answer]:  # fmt: skip
    """`decode` to its end."""
    steps = decode(engine, encoder, guides, budget, sampling, numbers)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def cache_length(budget: int) -> int:
    """Decoder positions of a cache: prompt, answer and a wide step that begins at its end; in few sizes, since each compiles."""
    return -(-(len(PROMPT) + budget + MOST_TOKENS) // 16) * 16


def bucket(n: int, sizes: tuple[int, ...]) -> int:
    """The least of `sizes` that holds `n`; above them, multiples of the last."""
    return next((s for s in sizes if s >= n), -(-n // sizes[-1]) * sizes[-1])
