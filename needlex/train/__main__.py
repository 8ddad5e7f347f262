"""`python -m needlex.train --config NAME_OR_PATH [flags]`: train a model from scratch."""

from __future__ import annotations

import json
from typing import Any

from needlex.config import fingerprint, flat, parse_flags, run_or_exit
from needlex.precision import named
from needlex.train.config import NOT_HASHED, TrainConfig

PROG = "needlex.train"


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Parse flags, train, return the summary.

    Exits with status 1 and a message for bad data, 2 for bad flags.
    """
    config = parse_flags(TrainConfig, argv, PROG, __doc__ or "", default="needle")
    if config.devices:
        emulate(config.devices)
    return run_or_exit(PROG, lambda: run(config))


def run(config: TrainConfig) -> dict[str, Any]:
    """Train `config` and print what a person wants to see."""
    from needlex.train.constants import constants, constants_table
    from needlex.train.loop import Seen, train
    from needlex.train.samples import sample_calls
    from needlex.train.setup import prepare

    config, data = prepare(config)
    width = max(map(len, flat(config)))
    for name, value in flat(config).items():
        print(f"  {name:<{width}}  {value}")
    print(
        f"configuration {fingerprint(config, NOT_HASHED)}, saved in {config.run_dir}/config.json", flush=True
    )

    print("epsilons and scales, and the dtypes that they act in:")
    print(
        constants_table(constants(config.model, config.optim, config.loss, named(config.precision))),
        flush=True,
    )

    def on_eval(moment):
        text = sample_calls(moment.model, data.validation_rows[:8], data.tokenizer, config.data)
        return Seen({"sample calls": text})

    summary = train(config, data, on_eval).summary
    print(
        f"{summary['steps']} of {data.steps} updates in {summary['seconds']:.0f} s; run directory {config.run_dir}"
    )
    if config.json:
        print(json.dumps(summary))
    return summary


def emulate(devices: int) -> None:
    """Make jax see this many CPU devices; nothing may have started it before."""
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", devices)
        jax.config.update("jax_platforms", "cpu")
    except RuntimeError:
        if len(jax.devices()) < devices:
            raise


if __name__ == "__main__":
    main()
