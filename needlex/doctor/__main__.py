"""`python -m needlex.doctor --config NAME --checkpoint RUN`: proves the numerics of a run before it is made."""

from __future__ import annotations

import json
import sys
from typing import Any

from needlex.config import ConfigError, config_name, load_preset, parse_flags, run_or_exit
from needlex.finetune.config import FinetuneConfig
from needlex.train.config import TrainConfig

PROG = "needlex.doctor"


def main(argv: list[str] | None = None) -> int:
    """Examine the configuration of a training or fine-tuning run; 0 if every check is green, 1 if not.

    Exits with status 1 and a message for a checkpoint that cannot be read, 2 for bad flags.
    """
    kind = _kind(config_name(argv))
    config = parse_flags(kind, argv, PROG, __doc__ or "", default="lora")
    if config.devices:
        from needlex.train.__main__ import emulate

        emulate(config.devices)
    from needlex.doctor.examine import examine
    from needlex.doctor.report import as_json, as_table

    findings = run_or_exit(PROG, lambda: examine(config))
    print(as_table(findings))
    if config.json:
        print(json.dumps(as_json(findings)))
    return 0 if all(f.ok for f in findings) else 1


def _kind(name: str | None) -> Any:
    """Whether a preset is one of training; all else is left to the parser, whose messages name the presets."""
    try:
        load_preset(name or "lora", TrainConfig)
    except ConfigError:
        return FinetuneConfig
    return TrainConfig


if __name__ == "__main__":
    sys.exit(main())
