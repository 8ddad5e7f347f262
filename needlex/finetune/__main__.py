"""`python -m needlex.finetune --config lora --checkpoint RUN --data.train FILE [flags]`: teach a model new tools."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from needlex.config import fingerprint, flat, parse_flags, run_or_exit
from needlex.finetune.config import FinetuneConfig
from needlex.train.config import NOT_HASHED

PROG = "needlex.finetune"


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Parse flags, fine-tune, return the summary.

    Exits with status 1 and a message for a bad checkpoint or bad data, 2 for bad flags.
    """
    config = parse_flags(FinetuneConfig, argv, PROG, __doc__ or "", default="lora")
    if not config.checkpoint:
        print(f"{PROG}: --checkpoint is missing; give the run directory to start from", file=sys.stderr)
        raise SystemExit(2)
    if config.devices:
        from needlex.train.__main__ import emulate

        emulate(config.devices)
    return run_or_exit(PROG, lambda: run(config))


def run(config: FinetuneConfig) -> dict[str, Any]:
    """Fine-tune and print what a person wants to see: what is trained, the figures before and after, memory."""
    from needlex.finetune.carry_out import carry_out

    config = config.with_free_gradients()
    width = max(map(len, flat(config)))
    for name, value in flat(config).items():
        print(f"  {name:<{width}}  {value}")
    print(f"configuration {fingerprint(config, NOT_HASHED)}", flush=True)
    summary = carry_out(config)
    summary["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    (Path(config.run_dir) / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(table(summary))
    if config.json:
        print(json.dumps(summary))
    return summary


def table(summary: dict[str, Any]) -> str:
    """Figures before and after as text."""
    lines = [f"{'rows':<16}{'':>8}{'name F1':>9}{'call F1':>9}{'exact':>9}"]
    for rows, label in (("new", "new tools"), ("old", "old tools")):
        for when in ("before", "after"):
            scores = summary[when].get(rows)
            if scores:
                values = (scores.get(k) for k in ("name_f1", "call_f1", "exact_match"))
                cells = "".join(f"{'-' if v is None else format(v, '.3f'):>9}" for v in values)
                lines.append(f"{label:<16}{when:>8}{cells}")
    m = summary["memory_mb"]
    lines.append(
        f"memory: trained {m['trained']:.2f} MB, frozen {m['frozen']:.2f} MB, optimizer {m['optimizer']:.2f} MB; "
        f"{summary['seconds']:.0f} s for {summary['steps']} updates; answers come from {summary['run_dir']} (step {summary['best_step']})"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
