"""`needlex COMMAND ...`: one console script over the modules."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "train": ("needlex.train.__main__", "train a model from scratch"),
    "finetune": ("needlex.finetune.__main__", "teach a model new tools: LoRA, QLoRA or all weights"),
    "run": ("needlex.run", "answer one query with calls"),
    "eval": ("needlex.eval.__main__", "measure the accuracy of tool calls"),
    "doctor": ("needlex.doctor.__main__", "prove the numerics of a run before it is made"),
    "generate-data": ("needlex.generate_data", "write examples of the embedded generator to a file"),
}


def main(argv: list[str] | None = None) -> None:
    """Run a sub-command; prints the list of them without one, exits with status 2 for an unknown one."""
    args = sys.argv[1:] if argv is None else argv
    if not args or args[0] in ("-h", "--help"):
        print("usage: needlex COMMAND [flags]   (needlex COMMAND --help lists the flags)\n")
        for name, (_, purpose) in COMMANDS.items():
            print(f"  {name:<15} {purpose}")
        return
    if args[0] not in COMMANDS:
        print(f"needlex: unknown command {args[0]!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        raise SystemExit(2)
    status = importlib.import_module(COMMANDS[args[0]][0]).main(args[1:])
    if isinstance(status, int) and status:  # the others return what they found, and exit by themselves
        raise SystemExit(status)


if __name__ == "__main__":
    main()
