"""Which tools answer a query, by the contrastive head; and which of too many tools are offered to the model.

Query and tool are embedded apart from each other, each as in training: the ids of the text alone, a tool rendered by itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int

from needlex.data.encode import TooLong, encode_query
from needlex.data.render import RenderConfig, render_tool
from needlex.data.tokenizer import Tokenizer
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Tool

ROWS = 8
"""Tools of one compiled call. Fewer are filled up: the shape a text meets depends on its own length alone, so its
embedding does not change with its neighbours."""
MIN_LENGTH = 16
"""Shortest compiled length; longer texts go up to the next power of two."""


@dataclass(frozen=True)
class Ranked:
    """A tool and how near it is to the query."""

    tool: Tool
    index: int
    """Place in the caller's list."""
    score: float
    """Cosine similarity of query and tool, in [-1, 1] up to rounding."""
    truncated: bool
    """Whether the tool's text was longer than `max_tool` and only its beginning was read."""
    query_truncated: bool
    """Whether the query was longer than `max_query` and only its beginning was read."""


@dataclass(frozen=True)
class Choice:
    """The tools that the model gets to see."""

    tools: tuple[Tool, ...]
    """In the caller's order."""
    offered: int
    """How many the caller gave."""
    reason: str | None
    """Why not all of them; None when nothing was left out."""
    ranked: tuple[Ranked, ...]
    """All tools by score; empty when nothing had to be chosen."""


def untrained_head(model: Seq2Seq, contrastive_weight: float | None = None) -> str | None:
    """Why the retrieval head of `model` cannot rank and what to do, or None when it can.

    `contrastive_weight` is `loss.contrastive_weight` of the run that made the model, None where it is not known. Bias and
    temperature start at exactly 0, and the first pair that the CLIP loss sees moves them.
    """
    head = model.contrastive
    weights = [np.asarray(w, np.float32) for w in (head.hidden.weight, head.out.weight)]
    start = [np.asarray(w, np.float32) for w in (head.hidden.bias, head.log_temperature)]
    if not all(np.isfinite(w).all() for w in weights + start):
        why = "its weights are not finite"
    elif not all(w.any() for w in weights):
        why = "its weights are all zero"
    elif not any(w.any() for w in start):
        why = "it is as it was at the start of training, no pair of query and tool has moved it"
    elif contrastive_weight == 0:
        why = "the run trained with loss.contrastive_weight 0"
    else:
        return None
    return (
        f"the retrieval head of this model is not trained ({why}); train with loss.contrastive_weight > 0 on rows "
        "within data.max_query and data.max_tool"
    )


@partial(jax.jit, static_argnames="static")
def _embed(params: Any, static: Any, tokens: Int[Array, "b e"]) -> Float[Array, "b m"]:
    return jax.vmap(eqx.combine(params, static).embed)(tokens)


class Retriever:
    """Ranks tools for queries. Embeddings of tools are kept by content, in this object alone."""

    def __init__(
        self, model: Seq2Seq, tokenizer: Tokenizer, render: RenderConfig, max_query: int, max_tool: int,
        contrastive_weight: float | None = None, remember: int = 4096,
    ):  # fmt: skip
        """`max_query` and `max_tool` are the token budgets of the training (`DataConfig`): training makes no pair of a
        longer text, so here only its beginning is read, and the result says so. `contrastive_weight` is that of the run,
        None if not known; `remember` is the most tools whose embeddings are kept.

        A model whose head is not trained is refused when something is to be embedded: `untrained` tells beforehand.
        """
        for name, value in (("max_query", max_query), ("max_tool", max_tool), ("remember", remember)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        self.tokenizer, self.render = tokenizer, render
        self.max_query, self.max_tool, self.remember = max_query, max_tool, remember
        self.untrained = untrained_head(model, contrastive_weight)
        """Why this model cannot rank, or None."""
        self._width = model.contrastive.out.weight.shape[1]
        self._params, self._static = eqx.partition(model, eqx.is_array)
        self._kept: OrderedDict[bytes, tuple[np.ndarray, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def embed_tools(self, tools: Sequence[Tool]) -> Float32[np.ndarray, "n m"]:
        """Embeddings of unit length.

        **Raises:** `ValueError` when the head is not trained or gives a text no direction.
        """
        return self._embed_tools(tools)[0]

    def rank(self, query: str, tools: Sequence[Tool], k: int | None = None) -> list[Ranked]:
        """The `k` tools nearest to the query (None: all), best first; equal scores in the caller's order.

        **Raises:** `ValueError` when the head is not trained, the query is empty or `k` is less than 1.
        """
        if k is not None and k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        matrix, truncated = self._embed_tools(tools)
        ids, query_truncated = self._cut(query, self.max_query)
        if not len(ids):
            raise ValueError("the query is empty: there is nothing to compare the tools with")
        vector = self._vectors([query], [ids], 1)[0]
        # Row by row and in float64: a matrix product may round a row differently among other rows.
        scores = (matrix.astype(np.float64) * vector.astype(np.float64)).sum(axis=1)
        order = np.argsort(-scores, kind="stable")[:k]
        return [Ranked(tools[i], int(i), float(scores[i]), truncated[i], query_truncated) for i in order]

    def _embed_tools(self, tools: Sequence[Tool]) -> tuple[np.ndarray, list[bool]]:
        if self.untrained is not None:
            raise ValueError(self.untrained)
        texts = [render_tool(t, self.render) for t in tools]
        keys = [sha256(t.encode("utf-8", "surrogatepass")).digest() for t in texts]
        found: dict[bytes, tuple[np.ndarray, bool]] = {}
        with self._lock:
            for key in keys:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    found[key] = self._kept[key]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        cut = [self._cut(text, self.max_tool) for text in missing.values()]
        vectors = self._vectors(list(missing.values()), [ids for ids, _ in cut], ROWS)
        new = {key: (v, c) for key, v, (_, c) in zip(missing, vectors, cut, strict=True)}
        with self._lock:
            self._kept.update(new)
            while len(self._kept) > self.remember:
                self._kept.popitem(last=False)
        found |= new
        matrix = np.array([found[key][0] for key in keys], np.float32).reshape(len(keys), self._width)
        return matrix, [found[key][1] for key in keys]

    def _cut(self, text: str, limit: int) -> tuple[np.ndarray, bool]:
        ids = self.tokenizer.encode_array(text)
        return ids[:limit], len(ids) > limit

    def _vectors(self, texts: Sequence[str], coded: Sequence[np.ndarray], rows: int) -> np.ndarray:
        """Embeddings of id sequences, `rows` of one padded length at a time: [n, m]. `texts` are for messages."""
        out = np.zeros((len(coded), self._width), np.float32)
        groups: dict[int, list[int]] = {}
        for i, ids in enumerate(coded):
            groups.setdefault(max(MIN_LENGTH, 1 << (len(ids) - 1).bit_length()), []).append(i)
        for length, members in groups.items():
            for first in range(0, len(members), rows):
                chosen = members[first : first + rows]
                block = np.zeros((rows, length), np.int32)
                for row, i in enumerate(chosen):
                    block[row, : len(coded[i])] = coded[i]
                found = _embed(self._params, self._static, jnp.asarray(block))
                out[chosen] = np.asarray(found, np.float32)[: len(chosen)]
        bad = np.flatnonzero(~(np.abs(np.linalg.norm(out, axis=1) - 1) < 1e-2))
        if len(bad):
            raise ValueError(
                f"the retrieval head gives {texts[bad[0]][:80]!r} no direction (a zero or NaN embedding): the model is "
                "damaged or its head hardly trained"
            )
        return out


def choose_tools(
    retriever: Retriever, query: str, tools: Sequence[Tool], max_encoder: int, max_tools: int | None = None
) -> Choice:
    """The tools to offer: all of them if they are at most `max_tools` and fit, with the query, into `max_encoder` tokens.

    Else as many of the best-ranked as fit. A tool that does not fit even alone is passed over (the reason names it); at the
    first other one that no longer fits the choice ends, so no tool takes the place of a better one.

    **Raises:** `TooLong` with the numbers when the query or any tool beside it is too long, or the tools would have to be
    chosen by a head that is not trained; `ValueError` for that where `max_tools` asks for it.
    """
    if max_tools is not None and max_tools < 1:
        raise ValueError(f"max_tools is {max_tools}; it must be at least 1")
    tokenizer, render, n = retriever.tokenizer, retriever.render, len(tools)
    used = len(tokenizer.encode_array(query)) + 1
    if used > max_encoder:
        raise TooLong(
            "encoder",
            used,
            max_encoder,
            "that is the query without any tool; shorten it or raise max_encoder",
        )

    def size(indices: Sequence[int]) -> int:
        """Tokens of the query with these tools."""
        try:
            return len(
                encode_query(query, [tools[i] for i in sorted(indices)], tokenizer, render, max_encoder)
            )
        except TooLong as e:
            return e.tokens

    if max_tools is not None and n > max_tools:
        reason = f"{n} tools were offered, max_tools is {max_tools}"
    else:
        total = size(range(n))
        if total <= max_encoder:
            return Choice(tuple(tools), n, None, ())
        reason = f"the query and {n} tools take {total} tokens, the limit is {max_encoder}"
        if retriever.untrained is not None:
            fix = f"offer fewer tools or raise max_encoder; they cannot be chosen here, because {retriever.untrained}"
            raise TooLong("encoder", total, max_encoder, fix)
    ranked = retriever.rank(query, tools)
    alone = {r.index: size([r.index]) for r in ranked}
    order = [r.index for r in ranked if alone[r.index] <= max_encoder]
    if not order:
        fix = f"that is the query with the shortest of {n} tools; shorten them or raise max_encoder"
        raise TooLong("encoder", min(alone.values()), max_encoder, fix)
    most = len(order) if max_tools is None else min(max_tools, len(order))
    # A first guess from the sizes alone, exact but for what joins the tools; then what really fits decides.
    costs = np.cumsum([alone[i] - used for i in order[:most]])
    count = max(1, int(np.searchsorted(costs, max_encoder - used, side="right")))
    while count > 1 and size(order[:count]) > max_encoder:
        count -= 1
    while count < most and size(order[: count + 1]) <= max_encoder:
        count += 1
    if max_tools is not None and n > max_tools and count < max_tools:
        reason += f"; only {count} fit, with the query, into {max_encoder} tokens"
    last = next(place for place, r in enumerate(ranked) if r.index == order[count - 1])
    if over := [r.tool.name for r in ranked[:last] if alone[r.index] > max_encoder]:
        reason += f"; passed over, too long even alone: {', '.join(over)}"
    return Choice(tuple(tools[i] for i in sorted(order[:count])), n, reason, tuple(ranked))
