"""Speed of decoding: `just bench-decode`.

Tokens a second of the bare step, and milliseconds a call under the grammar and without, for batches of 1, 8 and 32 at the size of
configs/needle.py (or of `--checkpoint`), encoder 256, 64 new tokens, float32; bytes read a token against the memory bandwidth that
this machine shows. Random weights decode random answers: their speed is that of any other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.random as jr
import numpy as np
import tyro

import needlex
from needlex.config import load_preset
from needlex.data.encode import encode_query
from needlex.data.generate import GenerateConfig, generate
from needlex.data.render import RenderConfig, render_answer, render_tools
from needlex.data.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from needlex.decode import loop
from needlex.decode.engine import Engine, prefill, step
from needlex.decode.grammar import Grammar, compile_grammar
from needlex.decode.loop import Free
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Example
from needlex.train.config import TrainConfig


@dataclass(frozen=True)
class Args:
    """What is measured."""

    config: str = "needle"
    """Preset whose shape is measured."""
    checkpoint: str | None = None
    """Trained run to measure instead: its answers have true lengths and shares of forced tokens."""
    batches: tuple[int, ...] = (1, 8, 32)
    encoder: int = 256
    """Encoder tokens."""
    new_tokens: int = 64
    repeat: int = 3
    json: bool = False


@dataclass(frozen=True)
class Setting:
    engine: Engine
    tokenizer: Tokenizer
    render: RenderConfig
    examples: list[Example]


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    setting = trained(args.checkpoint) if args.checkpoint else random_weights(args.config)
    size = sum(x.nbytes for x in jax.tree.leaves(setting.engine.weights))
    size -= setting.engine.weights.embedding.weight.nbytes  # looked up, not read
    size -= sum(layer.cross_memory.nbytes for layer in setting.engine.weights.layers)  # read once an answer
    bandwidth = memory_bandwidth()
    figures: dict[str, Any] = {
        "jax": jax.__version__, "bandwidth_gb_s": round(bandwidth / 1e9, 1), "weights_mb": round(size / 1e6, 1),
    }  # fmt: skip
    show(figures)
    for batch in args.batches:
        found = steps(setting.engine, batch, args, size, bandwidth)
        found |= answers(setting, batch, args)
        figures[f"batch_{batch}"] = found
        print(f"batch {batch}")
        show(found)
    if args.json:
        print(json.dumps(figures))


def show(figures: dict[str, Any]) -> None:
    for name, value in figures.items():
        print(f"  {name:<28} {value}")


def random_weights(config: str) -> Setting:
    preset = load_preset(config, TrainConfig)
    examples = generate(GenerateConfig(rows=600))
    texts = [t for e in examples for t in (e.query, render_tools(e.tools), render_answer(e.calls)[0])]
    tokenizer = train_tokenizer(texts, TokenizerConfig(vocab_size=2048))
    shape = replace(preset.model, vocab_size=preset.model.vocab_size or preset.tokenizer.vocab_size)
    return Setting(Engine(Seq2Seq(shape, key=jr.key(0))), tokenizer, preset.data.render, examples)


def trained(path: str) -> Setting:
    model = needlex.load(path)
    run = model.run_config
    source = run.data.embedded if run is not None else GenerateConfig()
    return Setting(model.engine, model.tokenizer, model.render, generate(source, "seen_values"))


def memory_bandwidth() -> float:
    """Bytes a second that the product of a large matrix with a vector reads: all cores, nothing in caches."""
    matrix = jax.random.normal(jr.key(0), (64, 1 << 20))
    read = jax.jit(lambda x, m: x @ m)
    vector = np.ones(64, np.float32)
    return matrix.nbytes / best(lambda: read(vector, matrix), 5)


def best(run: Callable[[], Any], repeat: int) -> float:
    """Least seconds of `repeat` runs after one to warm up."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


def steps(engine: Engine, batch: int, args: Args, size: int, bandwidth: float) -> dict[str, Any]:
    """The bare step: one token a row, without choice and grammar."""
    encoder = np.random.default_rng(0).integers(6, engine.vocab_size, (batch, args.encoder)).astype(np.int32)
    length = loop.cache_length(args.new_tokens)
    begin = jax.jit(partial(prefill, static=engine.static, length=length))
    first = best(lambda: begin(engine.params, engine.weights, encoder=encoder), args.repeat)
    advance = jax.jit(step, donate_argnums=1)
    seconds, wide = float("inf"), float("inf")
    for _ in range(args.repeat + 1):
        cache = jax.block_until_ready(begin(engine.params, engine.weights, encoder=encoder)[1])
        tokens, at = np.full((batch, 1), 7, np.int32), np.full(batch, 2, np.int32)
        logits, cache = advance(engine.weights, cache, tokens, at)
        jax.block_until_ready(logits)
        start = time.perf_counter()
        for i in range(args.new_tokens - 1):
            logits, cache = advance(engine.weights, cache, tokens, at + 1 + i)
            jax.block_until_ready(logits)
        seconds = min(seconds, (time.perf_counter() - start) / (args.new_tokens - 1))
        block = np.full((batch, loop.MOST_TOKENS), 7, np.int32)
        jax.block_until_ready(advance(engine.weights, cache, block, at)[0])
        cache = jax.block_until_ready(begin(engine.params, engine.weights, encoder=encoder)[1])
        start = time.perf_counter()
        jax.block_until_ready(advance(engine.weights, cache, block, at)[0])
        wide = min(wide, time.perf_counter() - start)
    attention = sum(
        x.size * x.dtype.itemsize
        for x in jax.tree.leaves(jax.eval_shape(begin, engine.params, engine.weights, encoder=encoder)[1])
    )
    read = size + attention
    return {
        "prefill_seconds": round(first, 3), "step_ms": round(1e3 * seconds, 2),
        "step_of_8_ms": round(1e3 * wide, 2), "tokens_per_second": round(batch / seconds),
        "read_per_step_mb": round(read / 1e6, 1), "share_of_bandwidth": round(read / seconds / bandwidth, 2),
    }  # fmt: skip


def answers(setting: Setting, batch: int, args: Args) -> dict[str, Any]:
    """Whole answers, encoder included: under the grammar, under it without forced tokens, and free, of the same tokens each."""
    limit = setting.engine.vocab_size
    encoder = np.zeros((batch, args.encoder), np.int32)
    grammars: list[Grammar] = []
    wanted: list[list[int]] = []
    # The longest answers that fit. The right answer leads all ways of decoding: random weights would end at once or never.
    for example in sorted(setting.examples, key=lambda e: -len(render_answer(e.calls)[0])):
        grammar = compile_grammar(example.tools, setting.tokenizer)
        answer = spelled(grammar, render_answer(example.calls)[0])
        if len(answer) > args.new_tokens - 8:  # the grammar plans its end in single bytes
            continue
        ids = encode_query(example.query, example.tools, setting.tokenizer, setting.render, 1 << 20)
        ids = np.minimum(ids[: args.encoder], limit - 1)
        encoder[len(wanted), : len(ids)] = ids
        grammars.append(grammar)
        wanted.append(answer)
        if len(wanted) == batch:
            break

    def run(constrained: bool, force: bool = True) -> list[loop.Answer]:
        guides = [
            Led(ids, grammar.matcher(args.new_tokens + 1) if constrained else None, force)
            for ids, grammar in zip(wanted, grammars, strict=True)
        ]
        return loop.generate(setting.engine, encoder, guides, args.new_tokens)

    found = run(True)
    tokens, forced = sum(len(a.tokens) for a in found), sum(a.forced for a in found)
    under, masked, without = (
        best(lambda: run(True) and None, args.repeat),
        best(lambda: run(True, force=False) and None, args.repeat),
        best(lambda: run(False) and None, args.repeat),
    )
    first = first_token(setting.engine, encoder, wanted, grammars, args)
    return {
        "first_token_seconds": round(first, 3), "answer_tokens": tokens, "forced_share": round(forced / tokens, 2),
        "constrained_ms_per_answer": round(1e3 * under / batch, 1),
        "one_by_one_ms_per_answer": round(1e3 * masked / batch, 1),
        "free_ms_per_answer": round(1e3 * without / batch, 1), "constrained_speedup": round(without / under, 2),
        "grammar_ms": round(1e3 * best(lambda: compile_grammar(setting.examples[0].tools, setting.tokenizer) and None, 3), 2),
    }  # fmt: skip


def first_token(
    engine: Engine, encoder: np.ndarray, wanted: list[list[int]], grammars: list, args: Args
) -> float:
    """From the encoder's input to the first token, warm."""

    def run() -> None:
        guides = [Led(ids, g.matcher(args.new_tokens + 1)) for ids, g in zip(wanted, grammars, strict=True)]
        next(loop.decode(engine, encoder, guides, args.new_tokens))

    return best(run, args.repeat)


def spelled(grammar: Grammar, text: str) -> list[int]:
    """The ids of an answer as the grammar would cut it, forced tokens as it forces them."""
    matcher, rest, ids = grammar.matcher(1 << 20), text.encode(), []
    while rest:
        for token in matcher.forced() or [grammar.vocabulary.encode(rest)[0]]:
            matcher.consume(token)
            ids.append(token)
            rest = rest[len(grammar.vocabulary.pieces[token]) :]
    return ids


class Led:
    """A guide under which only the given answer can be written, with the grammar's work and its forced tokens, or without."""

    def __init__(self, ids: list[int], matcher: Any, force: bool = True):
        self.force = force
        self.ids, self.matcher, self.free, self.at = [*ids, loop.EOS], matcher, Free(), 0
        self.finished = False
        self.masks = np.zeros(matcher.grammar.vocabulary.words if matcher else 1, np.int32)

    def fill(self, row: np.ndarray) -> None:
        (self.matcher or self.free).fill(self.masks)
        token = self.ids[self.at]
        row.view(np.uint32)[token // 32] = 1 << (token % 32)

    def consume(self, token: int) -> None:
        (self.matcher or self.free).consume(token)
        self.at += 1
        self.finished = token == loop.EOS

    def forced(self) -> list[int]:
        return self.matcher.forced() if self.matcher and self.force else []


if __name__ == "__main__":
    main()
