"""`python -m needlex.generate_data`: write synthetic tool-call examples as JSON lines."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from needlex.data.generate import GenerateConfig, generate
from needlex.schema import Example


@dataclass(frozen=True)
class GenerateDataConfig:
    """Generate examples offline from the embedded templates; the same options give the same file."""

    output_jsonl: Path
    """File to write, one row a line; compressed when it ends in `.gz`."""
    num_samples: int = 20_000
    """Rows of the split."""
    split: Literal[
        "train", "validation", "seen_values", "unseen_values", "unseen_templates", "unseen_names"
    ] = "train"
    """Which split; no query of another split occurs in `train`."""
    seed: int = 0
    """Seed of the rows."""
    none_share: float = 0.12
    """Share of rows whose right answer is no call."""
    multi_share: float = 0.15
    """Share of rows with two or three calls."""
    domains: tuple[str, ...] = ()
    """Domains whose tools are used; none: all."""
    overwrite: bool = False
    """Replace the output file if it exists."""
    json: bool = field(default=False)
    """End with one line that is a JSON object of what was written."""

    def __post_init__(self):
        if self.num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {self.num_samples}")


def write_jsonl(examples: Iterable[Example], path: Path) -> None:
    """Write rows as JSON lines, compressed for a name in `.gz`; the file appears only when complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as raw:
        # No time stamp and no name in the header: equal rows give equal files.
        stream = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
        for example in examples:
            stream.write(json.dumps(example.to_json(), ensure_ascii=False).encode() + b"\n")
        if stream is not raw:
            stream.close()
    part.replace(path)


def run(config: GenerateDataConfig) -> dict[str, object]:
    """Generate, write and describe; returns the summary.

    **Raises:** `FileExistsError` when the output exists and `overwrite` is off, or is a folder.
    """
    path = config.output_jsonl
    if path.is_dir():
        raise FileExistsError(f"--output-jsonl {path} is a folder; give a file in it")
    if path.exists() and not config.overwrite:
        raise FileExistsError(f"{path} exists; give --overwrite to replace it, or another --output-jsonl")
    start = time.perf_counter()
    settings = GenerateConfig(
        rows=config.num_samples,
        held_out_rows=config.num_samples,
        seed=config.seed,
        domains=config.domains,
        none_share=config.none_share,
        multi_share=config.multi_share,
    )
    examples = generate(settings, config.split)
    write_jsonl(examples, path)
    seconds = time.perf_counter() - start
    kinds = Counter(e.call_type for e in examples)
    tools = Counter(len(e.tools) for e in examples)
    print(f"{len(examples)} rows of split {config.split} to {path} in {seconds:.1f} s")
    print("calls: " + ", ".join(f"{kind} {kinds[kind]}" for kind in ("none", "single", "multi")))
    print("tools a row: " + ", ".join(f"{n}: {tools[n]}" for n in sorted(tools)))
    for example in examples[:3]:
        print(json.dumps(example.to_json(), ensure_ascii=False))
    return {
        "output": str(path),
        "split": config.split,
        "rows": len(examples),
        "seed": config.seed,
        "calls": dict(sorted(kinds.items())),
        "tools_per_row": {str(n): tools[n] for n in sorted(tools)},
        "seconds": round(seconds, 3),
    }


def main(args: list[str] | None = None) -> int:
    """Command line; exit code 0, or 1 with a message for what the user can put right."""
    config = tyro.cli(GenerateDataConfig, prog="needlex generate-data", args=args)
    try:
        summary = run(config)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"generate-data: {error}", file=sys.stderr)
        return 1
    if config.json:
        print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
