"""Plain text as training rows: the encoder reads the first half of a passage, the decoder writes the second.

For a warm-up before tool calls, in which a model meets the words of a new field. Nothing marks a call: the decoder starts
from the end token alone.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grain
import numpy as np

from needlex.batch import Batch
from needlex.data.packing import FIELDS
from needlex.data.sources import DataError
from needlex.data.tokenizer import EOS, Tokenizer

Arrays = dict[str, np.ndarray]


def read_passages(path: str | Path) -> list[str]:
    """Lines that hold text, of a `.txt` or `.txt.gz` file.

    **Raises:** `DataError` when the file is missing, of another format, not UTF-8, or empty.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no text file at {path}")
    if not path.name.lower().endswith((".txt", ".txt.gz")):
        raise DataError(f"{path}: unknown format; use .txt or .txt.gz, one passage a line")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = [line.strip() for line in raw.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as e:
        raise DataError(f"{path}: invalid UTF-8 at byte {e.start}") from None
    except (OSError, EOFError) as e:
        raise DataError(f"{path} cannot be read ({e})") from None
    if not (found := [line for line in lines if line]):
        raise DataError(f"{path} holds no text")
    return found


def text_rows(
    passages: Sequence[str], tokenizer: Tokenizer, max_encoder: int, max_decoder: int
) -> list[Arrays]:
    """Rows of all passages; a long one becomes several, so nothing is cut off.

    Passages of fewer than two tokens have no second half and are left out.
    """
    rows = []
    # The encoder gets as much as the decoder (less its end token): both halves are of one length.
    half = min(max_encoder, max_decoder - 1)
    for passage in passages:
        ids = tokenizer.encode(passage)
        pieces = -(-len(ids) // (2 * half)) or 1
        size = -(-len(ids) // pieces)
        rows += [_row(part) for i in range(0, len(ids), size) if len(part := ids[i : i + size]) > 1]
    return rows


def _row(ids: list[int]) -> Arrays:
    first, second = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    targets = np.array([*second, EOS], np.int32)
    decoder = np.array([EOS, *second], np.int32)
    return {
        "encoder": np.array(first, np.int32),
        "decoder": decoder,
        "targets": targets,
        "classes": np.zeros_like(targets),
    }


def text_batches(rows: Sequence[Arrays], size: int, seed: int) -> Callable[[], grain.DatasetIterator[Batch]]:
    """Starts an endless stream of shuffled batches of one shape."""
    lengths = tuple(max(len(r[side]) for r in rows) for side in ("encoder", "decoder"))

    def start() -> grain.DatasetIterator[Batch]:
        data = grain.MapDataset.source(list(rows)).seed(seed).shuffle().repeat(None)
        batches: Any = data.map(lambda r: _padded(r, lengths)).batch(size).map(_batch)
        started: Any = iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)))
        return started

    return start


def fixed_batches(rows: Sequence[Arrays], size: int) -> list[Batch]:
    """Every row once, the last batch filled up with empty rows."""
    lengths = tuple(max(len(r[side]) for r in rows) for side in ("encoder", "decoder"))
    empty = {name: np.zeros(0, np.int32) for name in FIELDS}
    found = []
    for i in range(0, len(rows), size):
        part = [*rows[i : i + size], *[empty] * (size - len(rows[i : i + size]))]
        padded = [_padded(r, lengths) for r in part]
        found.append(_batch({k: np.stack([p[k] for p in padded]) for k in padded[0]}))
    return found


def _padded(row: Arrays, lengths: tuple[int, ...]) -> Arrays:
    found = {name: np.pad(row[name], (0, lengths[name != "encoder"] - len(row[name]))) for name in FIELDS}
    for side in ("encoder", "decoder"):
        found[f"{side}_segments"] = (np.arange(lengths[side != "encoder"]) < len(row[side])).astype(np.int32)
    return found


def _batch(rows: Any) -> Batch:
    return Batch(**rows)
