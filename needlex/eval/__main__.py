"""`python -m needlex.eval`: accuracy of a model on sets of rows, as tables and as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Protocol

import tyro

from needlex.data.generate import GenerateConfig
from needlex.data.sources import DataError
from needlex.eval.explain import failures
from needlex.eval.metrics import score
from needlex.eval.report import Report, summary
from needlex.eval.sets import EMBEDDED, EvalSet, load_sets
from needlex.schema import Example


@dataclass(frozen=True)
class Args:
    checkpoint: str
    """Run directory, one step of it, or an exported model."""
    data: Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction] = ()
    """Files (.jsonl, .jsonl.gz, .json, .parquet) or names of embedded sets; all embedded sets if not given:
    seen_values, unseen_values, unseen_templates, unseen_names."""
    max_samples: int | None = None
    """Rows drawn from each set; if not given all of a file, and of an embedded set as many as
    `GenerateConfig.held_out_rows`."""
    batch_size: int = 32
    """Rows decoded at a time."""
    max_gen_len: int | None = None
    """Tokens of an answer at most; if not given the model's limit."""
    max_tools: int | None = None
    """Tools left in a row at most: the called ones and a draw of the others; if not given all."""
    constrained: bool = True
    """Admit only answers that are valid for the row's tools; `--no-constrained` scores what the model writes by itself."""
    failures: int = 0
    """Wrong answers shown of each set."""
    json: bool = False
    """Whether the last line of the output is all figures as one JSON object."""
    output: Path | None = None
    """File to write that JSON object to."""

    def __post_init__(self):
        if not all(self.data):
            raise ValueError(f"--data without a value; give files or names of {', '.join(EMBEDDED)}")
        for name in ("max_samples", "batch_size", "max_gen_len", "max_tools"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")
        if self.failures < 0:
            raise ValueError(f"--failures is {self.failures}; it must be at least 0")


class Prediction(Protocol):
    """What a model answers for one row."""

    @property
    def text(self) -> str:
        """Decoded answer; empty where there is an error."""
        ...

    @property
    def error(self) -> str | None:
        """Why there is no answer, as `kind: detail`."""
        ...


class Predictor(Protocol):
    """What is evaluated; `needlex.load` gives one."""

    def predict(
        self, examples: Sequence[Example], batch_size: int, max_new_tokens: int | None, constrained: bool
    ) -> Sequence[Prediction]:
        """One prediction for each example, in their order."""
        ...


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Evaluate as the flags in `argv` say (those of the process if None), print, and return the JSON object:
    for each set the fields of its `Report`, `available` and `rejected` rows, and `failures` if asked for.

    **Raises:** `SystemExit` with a message when a file or the checkpoint cannot be used (status 1), or the
    flags cannot (status 2).
    """
    args = tyro.cli(Args, args=argv, prog="needlex.eval", description=__doc__)
    try:
        _check_paths(args)
        model = _load_model(args.checkpoint)
        run = getattr(
            model, "run_config", None
        )  # the embedded sets are those of the data that the model was trained on
        embedded = run.data.embedded if run is not None else GenerateConfig()
        sets = load_sets(tuple(chain(*args.data)), args.max_samples, args.max_tools, embedded)
    except (DataError, OSError) as e:
        raise SystemExit(f"needlex.eval: {e}") from None
    reports: dict[str, Report] = {}
    result: dict[str, Any] = {}
    wrong: dict[str, list[dict[str, Any]]] = {}
    for rows in sets:
        report, wrong[rows.name] = _evaluate(model, rows, args)
        reports[rows.name] = report
        result[rows.name] = report.to_json() | {"available": rows.available, "rejected": len(rows.rejects)}
        if args.failures:
            result[rows.name]["failures"] = wrong[rows.name]
    _show(summary(reports))
    for name, report in reports.items():
        _show(f"\n{name}\n{report.table()}")
        for failure in wrong[name]:
            _show("\n" + "\n".join(f"  {k}: {_line(v)}" for k, v in failure.items()))
    if args.output:
        args.output.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if args.json:
        print(json.dumps(result, allow_nan=False))
    return result


def _check_paths(args: Args) -> None:
    """What would fail after an hour is found at once."""
    if not Path(args.checkpoint).exists():
        raise FileNotFoundError(
            f"no checkpoint at {args.checkpoint}; give a run directory, one step of it, or an exported model"
        )
    if args.output and (args.output.is_dir() or not args.output.parent.is_dir()):
        raise FileNotFoundError(f"--output {args.output}: no file in an existing directory")


def _load_model(path: str) -> Predictor:
    import needlex  # starts jax, so only now

    try:
        return needlex.load(path)
    except ValueError as e:
        raise OSError(f"checkpoint {path} cannot be loaded: {e}") from e


def _evaluate(model: Predictor, rows: EvalSet, args: Args) -> tuple[Report, list[dict[str, Any]]]:
    if len(rows.rejects):
        _note(rows.rejects.summary())
    start = time.perf_counter()
    predictions = model.predict(rows.examples, args.batch_size, args.max_gen_len, args.constrained)
    seconds = time.perf_counter() - start
    texts, errors = [p.text for p in predictions], [p.error for p in predictions]
    report = score(rows.examples, texts, errors)
    _note(f"{rows.name}: {report.rows} of {rows.available} rows in {seconds:.1f} s")
    for kind, count in report.errors.items():
        if count:
            example = next(e for e in errors if e and e.startswith(kind))
            _note(f"{rows.name}: {count} rows without an answer, counted as failures: {example}")
    return report, failures(rows.examples, texts, args.failures, errors)


def _line(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else value
    return text.replace("\n", "\\n")


def _show(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"  # a broken character in a row must not end the report
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _note(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
