"""Batches for training and validation, over Grain.

The order of examples is a pure function of (seed, epoch, position): every process computes the same global batch and takes
its own rows of it, so a run may be resumed on another number of processes and still sees every row once an epoch.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import grain
import numpy as np
from grain import experimental as grain_x

from needlex.batch import Batch, Pairs
from needlex.data.augment import augment
from needlex.data.config import DataConfig
from needlex.data.corpus import fit_tools
from needlex.data.encode import Encoded, TooLong, contrastive_pair, encode_example
from needlex.data.packing import FIELDS, PackedWindows
from needlex.data.render import render_tool
from needlex.data.tokenizer import Tokenizer
from needlex.schema import Example, Tool


class Encoder:
    """Grain random map: an example as ids, augmented anew each time it comes up."""

    def __init__(self, config: DataConfig, tokenizer: Tokenizer):
        self.config, self.tokenizer = config, tokenizer

    def __call__(self, example: Example, rng: np.random.Generator) -> Encoded:
        config, reason = self.config, None
        limited = fit_tools(example, config, rng)
        # A row that fitted at the start can miss the budget augmented, or with other tools drawn.
        for make in (
            lambda: augment(limited, config.augment, rng),
            lambda: limited,
            lambda: self._least(example),
        ):
            try:
                return encode_example(
                    make(), self.tokenizer, config.render, config.max_encoder, config.max_decoder
                )
            except TooLong as e:
                reason = e
        assert reason is not None
        raise reason

    def _least(self, example: Example) -> Example:
        """The row with the called tools alone, or the shortest one."""
        called = {c.name for c in example.calls}
        tools = tuple(t for t in example.tools if t.name in called)
        return replace(example, tools=tools or (min(example.tools, key=self._length),))

    def _length(self, tool: Tool) -> int:
        return len(self.tokenizer.encode_array(render_tool(tool, self.config.render)))


def mixture(sources: Sequence[Sequence[Example]], weights: Sequence[float], seed: int) -> grain.MapDataset:
    """Endless shuffled rows; a fresh shuffle each epoch. `weights` empty: sources by their number of rows."""
    if not weights:
        rows = [row for source in sources for row in source]
        return grain.MapDataset.source(rows).seed(seed).shuffle().repeat(None)
    total = sum(weights)
    parts = [
        grain.MapDataset.source(list(s)).seed(seed + i).shuffle().repeat(None) for i, s in enumerate(sources)
    ]
    return grain.MapDataset.mix(parts, [w / total for w in weights]).seed(seed)


Shape = tuple[int, int]
"""Encoder and decoder length of a padded batch."""


def batch_shapes(lengths: np.ndarray, limits: Shape, count: int, slack: float = 1.15) -> list[Shape]:
    """The few shapes that batches are padded to, cheapest first: each is compiled once.

    `count` encoder lengths (quantiles of `lengths` [n, 2] times `slack`, since augmentation lengthens rows) go with
    short answers (90% of the rows); the last shape, the limits, takes everything.
    """

    def mark(side: int, share: float) -> int:
        return min(int(-(-np.quantile(lengths[:, side], share) * slack // 8) * 8), limits[side])

    short = mark(1, 0.9)
    encoders = {mark(0, (i + 1) / count) for i in range(count - 1)} | {limits[0]}
    return sorted({(e, short) for e in encoders}) + ([limits] if short < limits[1] else [])


def fitting(shapes: Sequence[Shape], rows: Sequence[Encoded]) -> int:
    """Index of the first shape that holds all `rows`."""
    encoder, decoder = max(len(r.encoder) for r in rows), max(len(r.decoder) for r in rows)
    return next(i for i, (e, d) in enumerate(shapes) if e >= encoder and d >= decoder)


class BatchWindows(grain.MapDataset):
    """Batches of rows of similar length, padded to one of a few shapes.

    A window of `window` batches of rows is sorted by shape and length, cut into batches, and the batches are shuffled.
    Batch i depends on i alone, so Grain's position (an index) is all there is to save.
    """

    def __init__(self, parent: grain.MapDataset, batch_size: int, window: int, shapes: Sequence[Shape], seed: int,
                 part: tuple[int, int]):  # fmt: skip
        super().__init__(parent)
        self._rows = batch_size * window
        self._batch_size, self._window, self._seed, self._shapes = batch_size, window, seed, list(shapes)
        self._process, self._processes = part
        self._cache: OrderedDict[int, list[list[Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._parent) // self._batch_size

    def __getitem__(self, index: int) -> Batch:
        rows = self._batches(index // self._window)[index % self._window]
        mine = rows[self._process :: self._processes]
        return pad_batch(mine, len(mine), self._shapes[fitting(self._shapes, rows)])

    def _batches(self, window: int) -> list[list[Encoded]]:
        with self._lock:  # reading threads ask for the same window at once; it is encoded by the first
            if window not in self._cache:
                first = window * self._rows
                rows: list[Any] = [self._parent[i] for i in range(first, first + self._rows)]
                rows.sort(key=lambda r: (fitting(self._shapes, [r]), len(r.encoder), len(r.decoder)))
                cut = [rows[i : i + self._batch_size] for i in range(0, len(rows), self._batch_size)]
                order = np.random.default_rng((self._seed, window)).permutation(len(cut))
                self._cache[window] = [cut[i] for i in order]
                while len(self._cache) > 3:
                    self._cache.popitem(last=False)
            return self._cache[window]


def pad_batch(rows: Sequence[Encoded], size: int, shape: Shape) -> Batch:
    """One example a row, padded to `shape`; rows beyond those given, up to `size`, are all padding."""
    encoder, decoder = shape
    arrays: dict[str, Any] = {
        name: np.zeros((size, encoder if name == "encoder" else decoder), np.int32) for name in FIELDS
    }
    segments = np.zeros((size, encoder), np.int32), np.zeros((size, decoder), np.int32)
    for i, row in enumerate(rows):
        for name in FIELDS:
            values = getattr(row, name)
            arrays[name][i, : len(values)] = values
        segments[0][i, : len(row.encoder)] = 1
        segments[1][i, : len(row.decoder)] = 1
    return Batch(**arrays, encoder_segments=segments[0], decoder_segments=segments[1])


def packed_rows(parent: grain.MapDataset, config: DataConfig, seed: int) -> grain.IterDataset:
    """Rows of several examples that fill encoder and decoder budgets together."""
    options = grain.ReadOptions(num_threads=config.threads, prefetch_buffer_size=64)
    examples = parent.map(lambda row: {n: getattr(row, n) for n in FIELDS}).to_iter_dataset(options)
    return PackedWindows(examples, (config.max_encoder, config.max_decoder), config.packing_window, seed)


class PairBatches(grain.MapDataset):
    """`batch_size` query-tool pairs a step, drawn from their own shuffle of the rows; None on steps without."""

    def __init__(self, parent: grain.MapDataset, batch_size: int, config: DataConfig, tokenizer: Tokenizer, seed: int,
                 every: int, part: tuple[int, int]):  # fmt: skip
        super().__init__(parent)
        self._size, self._config, self._tokenizer = batch_size, config, tokenizer
        self._seed, self._every, self._part = seed, every, part

    def __len__(self) -> int:
        return len(self._parent) // self._size

    def __getitem__(self, index: int) -> Pairs | None:
        if (index + 1) % self._every:
            return None
        config, rng = self._config, np.random.default_rng((self._seed, index))
        query = np.zeros((self._size, config.max_query), np.int32)
        tool = np.zeros((self._size, config.max_tool), np.int32)
        identity = np.zeros(self._size, np.int32)
        first = (index + 1) // self._every * self._size
        for i in range(self._size):
            row: Any = self._parent[first + i]
            example = augment(row, config.augment, rng)
            pair = contrastive_pair(
                example, self._tokenizer, config.render, config.max_query, config.max_tool, rng
            )
            if pair is not None:
                query[i, : len(pair[0])], tool[i, : len(pair[1])] = pair[0], pair[1]
                identity[i] = max(1, pair[2])
        mine = slice(self._part[0], None, self._part[1])
        return Pairs(query[mine], tool[mine], identity[mine])


def training_batches(
    sources: Sequence[Sequence[Example]], lengths: np.ndarray, config: DataConfig, tokenizer: Tokenizer, seed: int,
    pairs_every: int = 0, accumulate: int = 1, process: int = 0, processes: int = 1,
) -> grain.DatasetIterator[Batch]:  # fmt: skip
    """Endless batches of this process; a Grain iterator, so its position can be saved.

    `lengths` [n, 2] are those of the rows (encoder, decoder); `pairs_every` n gives every n-th step contrastive pairs, 0 none.

    **Raises:** `ValueError` when the batch cannot be shared out evenly.
    """
    size = config.batch_size
    if size % processes:
        raise ValueError(
            f"data.batch_size {size} cannot be shared out to {processes} processes; make it a multiple"
        )
    part = (process, processes)
    rows = mixture(sources, config.weights, seed)
    encoded = rows.seed(seed).random_map(Encoder(config, tokenizer))
    read = grain.ReadOptions(num_threads=config.threads, prefetch_buffer_size=config.prefetch)
    if config.packing:
        batches: Any = packed_rows(encoded, config, seed).batch(size)
        batches = batches.map(lambda rows: Batch(**{name: x[process::processes] for name, x in rows.items()}))
    else:
        shapes = batch_shapes(lengths, (config.max_encoder, config.max_decoder), config.buckets)
        windows = BatchWindows(encoded, size, config.window, shapes, seed, part)
        batches = windows.to_iter_dataset(read)
    if accumulate > 1:
        if not config.packing and len(shapes) > 1:
            raise ValueError("optim.accumulate needs batches of one shape: turn data.packing on")
        batches = batches.batch(accumulate)
    if pairs_every:
        if config.pairs_per_batch % processes:
            raise ValueError(
                f"data.pairs {config.pairs_per_batch} cannot be shared out to {processes} processes; make it a multiple"
            )
        paired = PairBatches(mixture(sources, config.weights, seed + 1), config.pairs_per_batch * accumulate, config,
                             tokenizer, seed, pairs_every, part)  # fmt: skip
        # Grain leaves out None as if filtered unless told otherwise, and there would be pairs at every step.
        batches = grain_x.ZipIterDataset([batches, paired.to_iter_dataset(read, allow_nones=True)])
        batches = batches.map(lambda both: _with_pairs(both[0], both[1], accumulate))
    # Packing and batching run ahead in a thread of their own, not in the trainer's.
    return iter(grain_x.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=config.prefetch))


def _with_pairs(batch: Batch, pairs: Pairs | None, accumulate: int) -> Batch:
    if pairs is not None and accumulate > 1:
        pairs = Pairs(*(x.reshape(accumulate, -1, *x.shape[1:]) for x in pairs))
    return batch._replace(pairs=pairs)


def validation_batches(
    rows: Sequence[Example], config: DataConfig, tokenizer: Tokenizer, process: int = 0, processes: int = 1
) -> list[Batch]:
    """Every row exactly once, unaugmented, sorted by length; the last batch is filled up with empty rows.

    All processes get the same number of batches. Rows that do not fit must have been taken out (`drop_long`).
    """
    coded = [
        encode_example(r, tokenizer, config.render, config.max_encoder, config.max_decoder) for r in rows
    ]
    shapes = batch_shapes(
        np.array([(len(r.encoder), len(r.decoder)) for r in coded]), (config.max_encoder, config.max_decoder), config.buckets, 1.0
    )  # fmt: skip
    coded.sort(key=lambda r: (fitting(shapes, [r]), len(r.encoder), len(r.decoder)))
    share = -(-config.batch_size // processes)
    batches = []
    for first in range(0, len(coded), share * processes):
        chosen = coded[first : first + share * processes]
        batches.append(pad_batch(chosen[process::processes], share, shapes[fitting(shapes, chosen)]))
    return batches
