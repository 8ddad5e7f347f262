"""How many function definitions can be decoded under constraint: `python tools/check_schemas.py bfcl`, or files of tools.

`bfcl` is every function document of the package bfcl_eval; a path is a JSONL file whose lines are tools, lists of tools,
or rows that hold tools as `tools` or `function`. Each tool is compiled by itself. Refusals are grouped by their reason,
names and values taken out of it, and documents that name types of Java or JavaScript are counted apart.
"""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from needlex.data.generate import GenerateConfig, generate
from needlex.data.render import render_answer, render_tools
from needlex.data.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from needlex.decode.grammar import compile_grammar
from needlex.schema import SchemaError, Tool


class Document(NamedTuple):
    """A function definition and where it stands."""

    kind: str
    """`java`, `javascript` (by the file's name) or `other`."""
    place: str
    raw: Any


class Checked(NamedTuple):
    """What became of the documents of one kind."""

    compiled: int
    refused: Counter[str]
    """By reason."""
    first: dict[str, str]
    """Where each reason occurs first, in full."""
    seconds: list[float]
    """Of each that compiled."""


def documents(paths: Sequence[Path]) -> Iterator[Document]:
    """All function definitions of JSONL files, in their order; lines without any are passed over.

    **Raises:** `ValueError` for a line that is no JSON.
    """
    for path in paths:
        kind = next((k for k in ("javascript", "java") if k in path.name), "other")
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    value = json.loads(line)
                except json.JSONDecodeError as e:
                    raise ValueError(f"{path}:{number} is no JSON: {e}") from None
                for raw in _tools(value):
                    yield Document(kind, f"{path.name}:{number}", raw)


def _tools(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return []
    for key in ("tools", "function"):
        if isinstance(value.get(key), list):
            return value[key]
    return [value] if "name" in value or isinstance(value.get("function"), dict) else []


def small_tokenizer() -> Tokenizer:
    rows = generate(GenerateConfig(rows=300))
    texts = [t for e in rows for t in (e.query, render_tools(e.tools), render_answer(e.calls)[0])]
    return train_tokenizer(texts, TokenizerConfig(vocab_size=768))


def check(found: Sequence[Document], tokenizer: Tokenizer) -> Checked:
    """Compile each document by itself."""
    refused: Counter[str] = Counter()
    first: dict[str, str] = {}
    seconds = []
    for document in found:
        begun = time.perf_counter()
        try:
            compile_grammar((Tool.from_json(document.raw),), tokenizer)
        except SchemaError as e:
            reason = kind_of(str(e))
            refused[reason] += 1
            first.setdefault(reason, f"{document.place}: {e}")
        else:
            seconds.append(time.perf_counter() - begun)
    return Checked(len(seconds), refused, first, seconds)


def kind_of(message: str) -> str:
    """A refusal without the names and values of its own."""
    text = re.sub(r"^tool (?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")[:,] (?:parameters[^:]*: )?", "", message)
    return re.sub(r"\[.*\]|\{.*\}", "...", text)


def bfcl() -> list[Path]:
    """The files of the package bfcl_eval that may hold function documents.

    **Raises:** `ValueError` when it is not installed.
    """
    package = importlib.util.find_spec("bfcl_eval")
    if package is None or not package.submodule_search_locations:
        raise ValueError("the package bfcl_eval is not installed: pip install bfcl-eval")
    data = Path(next(iter(package.submodule_search_locations))) / "data"
    # These hold answers and settings; format_sensitivity is one object over many lines.
    return [
        p for p in sorted(data.rglob("*.json"))
        if "possible_answer" not in p.parts and "format_sensitivity" not in p.name
    ]  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0 if arguments else 2
    try:
        paths = [p for a in arguments for p in (bfcl() if a == "bfcl" else [Path(a)])]
        found = list(documents(paths))
    except (OSError, ValueError) as e:
        print(e, file=sys.stderr)
        return 2
    tokenizer = small_tokenizer()
    for kind in sorted({d.kind for d in found}, reverse=True):
        these = [d for d in found if d.kind == kind]
        distinct = len({json.dumps(d.raw, sort_keys=True) for d in these})
        done = check(these, tokenizer)
        median = f", median {1e3 * statistics.median(done.seconds):.2f} ms" if done.seconds else ""
        print(
            f"{kind}: {len(these)} documents ({distinct} distinct): "
            f"{done.compiled} compile, {done.refused.total()} are refused{median}"
        )
        for reason, count in done.refused.most_common():
            print(f"  {count:5}  {reason}\n         such as {done.first[reason][:220]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
