"""Rows from files: JSONL, JSON and Parquet become `Example`s; every other row is listed with its reason."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from needlex.data.chat import from_chat, is_chat
from needlex.schema import Example, SchemaError, Tool, load_json

FORMATS = (".jsonl", ".jsonl.gz", ".json", ".parquet")


class DataError(ValueError):
    """A data file that cannot be used at all; the message names the file, and the first bad rows if any."""


@dataclass
class Rejects:
    """The rows of a file that were left out."""

    path: str
    accepted: int = 0
    rows: list[tuple[int, str]] = field(default_factory=list)
    """Number (from 1: lines of JSONL, rows of JSON and Parquet) and reason, in order of the file."""

    def __len__(self) -> int:
        return len(self.rows)

    def kinds(self) -> Counter[str]:
        """How often each kind of reason occurs; names and values in the reasons are replaced by `...`."""
        return Counter(re.sub(r"'[^']*'|\"[^\"]*\"|\[.*\]|\d+", "...", reason) for _, reason in self.rows)

    def summary(self, limit: int = 5) -> str:
        """What a person needs to see: how many of how many, the kinds, the first `limit` rows."""
        total = self.accepted + len(self.rows)
        if not self.rows:
            return f"{self.path}: all {total} rows accepted"
        lines = [f"{self.path}: {len(self.rows)} of {total} rows rejected"]
        lines += [f"  {n} x {kind}" for kind, n in self.kinds().most_common(limit)]
        lines += [f"  {self.path}:{number}: {reason}" for number, reason in self.rows[:limit]]
        if len(self.rows) > limit:
            lines.append(f"  and {len(self.rows) - limit} more")
        return "\n".join(lines)

    def write(self, path: str | Path) -> None:
        """All rejected rows as JSONL: `file`, `line`, `reason`."""
        with open(path, "w", encoding="utf-8") as f:
            for number, reason in self.rows:
                row = {"file": self.path, "line": number, "reason": reason}
                f.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_rows(
    path: str | Path, *, source: str | None = None, limit: int | None = None
) -> tuple[list[Example], Rejects]:
    """All usable rows of a file, and the list of the others.

    `.jsonl`, `.jsonl.gz`, `.json` (a list of rows) and `.parquet`, each row with `query`, `tools` and
    `answers`, the last two as objects or as strings of JSON, or chat rows (`needlex.data.chat`). Blank lines are no
    rows. `source` marks rows that name none (the file name otherwise); `limit` stops after that many usable
    rows.
    Of Parquet's own types, dates and times become ISO 8601 text and decimals numbers; a row with
    bytes, durations, NaN or infinities is left out like any other that JSON cannot hold.

    **Raises:** `DataError` when the file is missing, of another format, unreadable, empty or without one
    usable row.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no data file at {path}")
    source = source or path.name
    examples: list[Example] = []
    rejects = Rejects(str(path))
    tools: dict[str, Any] = {}
    for number, raw in _raw_rows(path):
        if limit is not None and len(examples) >= limit:
            break
        try:
            if isinstance(raw, SchemaError):
                raise raw
            examples.append(_example(raw, source, tools))
        except SchemaError as e:
            rejects.rows.append((number, str(e)))
    rejects.accepted = len(examples)
    if not examples:
        raise DataError(f"no usable row in {rejects.summary()}" if rejects.rows else f"{path} is empty")
    return examples, rejects


def limit_tools(example: Example, max_tools: int, rng: np.random.Generator) -> Example:
    """The example with at most `max_tools` tools in random order: the called ones and a draw of the others.

    A row that calls more than `max_tools` different tools keeps all of them.
    """
    called = {c.name for c in example.calls}
    kept = [t for t in example.tools if t.name in called]
    others = [t for t in example.tools if t.name not in called]
    room = min(max(max_tools - len(kept), 0), len(others))
    kept += [others[i] for i in rng.permutation(len(others))[:room]]
    tools = tuple(kept[i] for i in rng.permutation(len(kept)))
    return Example(example.query, tools, example.calls, example.source)


def _example(raw: Any, source: str, known: dict[str, Any]) -> Example:
    if isinstance(raw, dict):
        if is_chat(raw):
            raw = from_chat(raw)
        tools = raw.get("tools")
        if isinstance(tools, str):
            tools = load_json(tools, "'tools'")
        if isinstance(tools, dict):
            tools = [tools]
        if isinstance(tools, list):  # files repeat their tools: parse each once, hold it once
            raw = raw | {"tools": [_intern(t, known) for t in tools]}
    example = Example.from_json(raw, source)
    try:
        example.query.encode()
        _json([c.to_json() for c in example.calls], "'answers'").encode()
    except UnicodeEncodeError:
        raise SchemaError("invalid Unicode: a lone surrogate in 'query' or 'answers'") from None
    return example


def _intern(raw: Any, known: dict[str, Any]) -> Any:
    key = _json(raw, "'tools'")
    tool = known.get(key)
    if tool is None:
        tool = known[key] = Tool.from_json(raw)
        try:
            key.encode()
        except UnicodeEncodeError:
            del known[key]
            raise SchemaError(f"invalid Unicode: a lone surrogate in tool {tool.name!r}") from None
    return tool


def _json(value: Any, where: str) -> str:
    """JSON text; Parquet has values for which there is none: bytes, durations, NaN.

    **Raises:** `SchemaError` that begins with `where`.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as e:
        raise SchemaError(f"{where} hold a value that JSON has no form for: {e}") from None


def _raw_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Number and parsed JSON of every row, or the `SchemaError` that says why it has none."""
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        yield from _json_lines(path, gzip.open if name.endswith(".gz") else open)
    elif name.endswith(".json"):
        yield from enumerate(_json_list(path), 1)
    elif name.endswith(".parquet"):
        yield from enumerate(_parquet(path), 1)
    else:
        raise DataError(f"{path}: unknown format; use one of {', '.join(FORMATS)}")


def _json_lines(path: Path, opener: Any) -> Iterator[tuple[int, Any]]:
    number = 0
    try:
        with opener(path, "rb") as f:
            for number, line in enumerate(f, 1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if not line.strip():
                    continue
                try:
                    yield number, load_json(line.decode(), "the line")
                except UnicodeDecodeError as e:
                    yield number, SchemaError(f"invalid UTF-8 at byte {e.start}")
                except SchemaError as e:
                    yield number, e
    except (gzip.BadGzipFile, EOFError, zlib.error) as e:
        raise DataError(f"{path}: broken gzip after line {number}: {e}") from None


def _json_list(path: Path) -> list[Any]:
    try:
        rows = load_json(path.read_bytes().decode("utf-8-sig"), "the file") if path.stat().st_size else []
    except UnicodeDecodeError as e:
        raise DataError(f"{path}: invalid UTF-8 at byte {e.start}") from None
    except SchemaError as e:
        raise DataError(f"{path}: {e}; for one row a line use the ending .jsonl") from None
    if not isinstance(rows, list):
        raise DataError(f"{path}: must hold a list of rows, not {type(rows).__name__}")
    return rows


def _parquet(path: Path) -> Iterable[Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow; install it with pip install 'needlex[parquet]'"
        ) from None
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(4096):
                for row in batch.to_pylist():
                    yield {key: _without_nulls(value) for key, value in row.items()}
    except (pa.ArrowInvalid, OSError) as e:
        raise DataError(f"{path}: not a readable Parquet file: {e}") from None


def _plain(value: Any) -> Any:
    """JSON for the types that Parquet has besides: ISO 8601 text for dates and times, numbers for decimals."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _without_nulls(value: Any) -> Any:
    # A struct column has every field in every row: a field that a row does not use is null there.
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return _plain(value)
