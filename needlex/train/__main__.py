"""`python -m needlex.train --config NAME_OR_PATH [flags]`: train a model from scratch."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from needlex.config import fingerprint, flat, parse_flags
from needlex.data.sources import DataError
from needlex.train.config import NOT_HASHED, TrainConfig

PROG = "needlex.train"


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Parse flags, train, return the summary.

    Exits with status 1 and a message for bad data, 2 for bad flags.
    """
    config = parse_flags(TrainConfig, argv, PROG, __doc__ or "", default="needle")
    if config.devices:
        _emulate(config.devices)
    try:
        return run(config)
    except (DataError, ValueError, OSError, RuntimeError) as e:
        if os.environ.get("NEEDLEX_TRACEBACK"):
            raise
        print(f"{PROG}: {e}", file=sys.stderr)
        raise SystemExit(1) from None


def run(config: TrainConfig) -> dict[str, Any]:
    """Train `config` and print what a person wants to see."""
    from needlex.train.loop import train
    from needlex.train.samples import sample_calls
    from needlex.train.setup import prepare

    config, data = prepare(config)
    width = max(map(len, flat(config)))
    for name, value in flat(config).items():
        print(f"  {name:<{width}}  {value}")
    print(
        f"configuration {fingerprint(config, NOT_HASHED)}, saved in {config.run_dir}/config.json", flush=True
    )

    def on_eval(model, step):
        text = sample_calls(model, data.validation_rows[:8], data.tokenizer, config.data)
        return {"sample calls": text}

    summary = train(config, data, on_eval).summary
    print(
        f"{summary['steps']} of {data.steps} updates in {summary['seconds']:.0f} s; run directory {config.run_dir}"
    )
    if config.json:
        print(json.dumps(summary))
    return summary


def _emulate(devices: int) -> None:
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", devices)
        jax.config.update("jax_platforms", "cpu")
    except RuntimeError:
        if len(jax.devices()) < devices:
            raise


if __name__ == "__main__":
    main()
