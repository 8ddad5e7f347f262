"""A network that is only a wish: the real decoding loop over logits of our choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
import pytest

from needlex.data.tokenizer import EOS, Tokenizer
from needlex.decode import loop
from needlex.decode.engine import PROMPT, Engine
from needlex.decode.loop import Guide, generate
from tests.decode.answers import scores

Wish = Callable[[int, list[int]], np.ndarray]
"""Logits [v] of the next token of a row, after the tokens before."""


def wishing(monkeypatch: pytest.MonkeyPatch, wish: Wish) -> None:
    """Put logits of our choice in the place of the network; all else of the loop is the real one."""
    written: dict[int, list[int]] = {}

    def begin(params, weights, static, encoder, length):
        rows = encoder[:, 0].astype(np.int32)  # a row's number is its first encoder token
        written.update({int(r): [] for r in rows})
        return jnp.asarray(np.stack([wish(int(r), []) for r in rows]), jnp.float32), jnp.asarray(rows)

    def advance(weights, cache, last, tokens, counts, positions):
        after = []
        for row, ids, n, at in zip(np.asarray(cache), tokens, counts, positions, strict=True):
            if at:  # other places of the batch are read by nobody
                assert at == len(PROMPT) + len(written[int(row)])
                written[int(row)] += ids[:n].tolist()
            after.append(wish(int(row), written[int(row)]) if at else np.zeros(last.shape[1]))
        return jnp.asarray(np.stack(after), jnp.float32), jnp.zeros(tokens.shape), cache

    monkeypatch.setattr(loop, "_begin", begin)
    monkeypatch.setattr(loop, "_advance", advance)


def asked(guides: Sequence[Guide], made: Tokenizer, budget: int) -> list[loop.Answer]:
    engine = Engine.__new__(Engine)  # only its size is asked for: there is no network
    vars(engine).update(params=None, weights=None, static=None, vocab_size=made.vocab_size)
    encoder = np.arange(len(guides), dtype=np.int32)[:, None]
    return generate(engine, encoder, guides, budget)


def follows(made: Tokenizer, answers: Sequence[list[int]], seed: int = 0) -> Wish:
    """Wants the tokens of one answer a row and then the end, and has opinions about all else."""

    def wish(row: int, before: list[int]) -> np.ndarray:
        noise = np.random.default_rng([seed, row, len(before)]).normal(0, 2, made.vocab_size)
        ids = [*answers[row % len(answers)], EOS] if answers else [EOS]
        noise[ids[min(len(before), len(ids) - 1)]] += 30
        return noise

    return wish


def spells(made: Tokenizer, text: str, style: str = "never_close") -> Wish:
    """Wants the characters of `text`, in as few tokens as can be; where it may not, whatever the style likes."""
    raw, liked = text.encode(), scores(style, np.random.default_rng(0), made.pieces)
    known: dict[bytes, np.ndarray] = {}

    def wish(row: int, before: list[int]) -> np.ndarray:
        done = b"".join(made.pieces[t] for t in before)
        if done not in known:
            rest = raw[len(done) :] if raw.startswith(done) else b""
            ahead = [50.0 + len(p) if p and rest.startswith(p) else 0.0 for p in made.pieces]
            known[done] = liked + np.array(ahead)
            known[done][EOS] += 100 * (done == raw)
        return known[done]

    return wish
