# All set-up is done by the recipes: `just train` and `just test` work from a clean clone.

set shell := ["bash", "-euo", "pipefail", "-c"]

python := ".venv/bin/python"
export JAX_COMPILATION_CACHE_DIR := justfile_directory() / ".jax_cache"
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := "0.5"
export TF_CPP_MIN_LOG_LEVEL := "2"

# List the recipes.
default:
    @just --list

# Make .venv and install the project with its development tools (again only when pyproject.toml changed).
setup:
    @bash tools/setup.sh

# Train configs/tiny.py on embedded data, measure it on four held-out sets, show it calling tools. Flags go to needlex.train.
train *flags: setup
    {{ python }} -m needlex.train --config tiny {{ flags }}
    {{ python }} -m needlex.eval --checkpoint runs/tiny
    {{ python }} -m needlex.run --checkpoint runs/tiny --query "turn off the lights in the kitchen" --tools tools/example_tools.json
    {{ python }} -m needlex.run --checkpoint runs/tiny --query "text Maria: I'm running late" --tools tools/example_tools.json

# The test-suite on 8 emulated CPU devices, without the slow tests. Compiled quickly: most of its time is the compiler's.
test *flags: setup
    JAX_DISABLE_MOST_OPTIMIZATIONS=1 {{ python }} -m pytest -n 2 -m "not slow" {{ flags }}

# Every test, compiled as in training.
test-all *flags: setup
    {{ python }} -m pytest -n 2 {{ flags }}

# Style and types.
lint: setup
    {{ python }} -m ruff check .
    {{ python }} -m ruff format --check .
    {{ python }} -m pyright

# Seconds a step, tokens/s, compile seconds and peak memory of the full-size training step.
bench *flags: setup
    {{ python }} tools/bench.py {{ flags }}

# Tokens/s, time to first token, ms an answer, share of forced tokens, bandwidth used: decoding at full size.
bench-decode *flags: setup
    {{ python }} tools/bench_decode.py {{ flags }}

# Seconds a step and memory of full fine-tuning, LoRA and QLoRA, with AdamW, Muon and Adafactor.
bench-finetune *flags: setup
    {{ python }} tools/bench_finetune.py {{ flags }}
