"""What decoding promises, through the real loop: every answer parses, validates and ends in time; a valid one is not changed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import needlex
from needlex.data.render import render_answer, render_tools
from needlex.data.tokenizer import EOS, Tokenizer, TokenizerConfig, train_tokenizer
from needlex.decode import loop
from needlex.decode.engine import Engine
from needlex.decode.grammar import compile_grammar
from needlex.decode.loop import GREEDY, Free, Sampling, decode, generate
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Call, Example, Tool, parse_tools
from tests.decode.answers import NAMES, check, kinds, rows, tokenizer, tool, toolsets
from tests.decode.test_engine import CONFIGS
from tests.decode.test_grammar import TRAPS
from tests.decode.wishes import asked, follows, wishing
from tests.train.runs import rows as run_rows
from tests.train.runs import run, small_config

# --- 1,000 random schemas x random weights ---

WIDTH, BUDGET = 16, 118
"""Encoder tokens, and tokens that caches have room for: one shape for many tests."""
WEIGHTS = [
    ((0, 1.0), GREEDY),
    ((1, 0.0), Sampling(1.0, 1.0, 1)),
    ((2, 3.0), Sampling(0.5, 0.9, 2)),
    ((3, -3.0), Sampling(30.0, 1.0, 3)),  # all tokens are nearly as likely
]
"""Seed of the weights and how much they favour the end, and how tokens are drawn."""


@cache
def random_engine(seed: int, end: float) -> Engine:
    """Weights that are all drawn at random (made without running anything); `end` times the vector of the end."""
    rng = np.random.default_rng(seed)
    config = replace(CONFIGS["attention only"], vocab_size=tokenizer().vocab_size)
    like = eqx.filter_eval_shape(lambda: Seq2Seq(config, key=jr.key(0)))
    shapes, static = eqx.partition(like, lambda x: isinstance(x, jax.ShapeDtypeStruct))
    drawn = jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.5, x.shape), x.dtype), shapes)
    found = eqx.combine(drawn, static)
    return Engine(eqx.tree_at(lambda m: m.embedding.weight, found, found.embedding.weight.at[EOS].mul(end)))


@st.composite
def definitions(draw: st.DrawFn) -> tuple[Tool, ...]:
    """One to three tools of up to three parameters of any kind that the grammar admits."""
    made = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        fields = {n: draw(kinds())[0] for n in draw(st.lists(NAMES, max_size=3, unique=True))}
        made.append(tool(fields, tuple(n for n in fields if draw(st.booleans())), name))
    return tuple(made)


def different(count: int) -> list[tuple[Tool, ...]]:
    """So many sets of tools, no two of which are the same."""
    found: dict[str, tuple[Tool, ...]] = {}

    @settings(max_examples=count + count // 3 + 20)
    @given(definitions())
    def draw(tools):
        found.setdefault(json.dumps([t.to_json() for t in tools]), tools)

    draw()
    assert len(found) >= count
    return list(found.values())[:count]


@pytest.mark.parametrize(("count", "rows"), [(64, 8), pytest.param(1000, 32, marks=pytest.mark.slow)])
def test_random_schemas_and_random_weights_give_valid_answers_within_budget(count: int, rows: int):
    """All of them: parsed, judged by jsonschema against the called tool, ended. Budgets from the least that is possible.

    In batches of `rows`, each batch under two sets of weights.
    """
    rng = np.random.default_rng(count)
    toolsets = different(count)
    answers = calls = full = 0
    for number, first in enumerate(range(0, count, rows)):
        some = toolsets[first : first + rows]
        grammars = [compile_grammar(tools, tokenizer()) for tools in some]
        for (seed, end), drawn in (WEIGHTS[number % 4], WEIGHTS[(number + 1) % 4]):
            most = rng.choice([20, 60, BUDGET - 10])
            budgets = [g.minimum + int(rng.integers(0, most)) for g in grammars]
            guides = [g.matcher(b) for g, b in zip(grammars, budgets, strict=True)]
            sampling = replace(drawn, seed=int(rng.integers(1 << 30)))
            found = generate(random_engine(seed, end), encoder_rows(rng, len(some)), guides, BUDGET, sampling)
            for tools, budget, answer in zip(some, budgets, found, strict=True):
                text, about = tokenizer().decode(answer.tokens), (tools, budget, sampling)
                assert answer.finished and len(answer.tokens) + 1 <= budget, (text, about)
                try:
                    calls += bool(check(text, tools))
                except Exception as e:
                    raise AssertionError(f"{text!r} of {about}") from e
                answers += 1
                full += len(answer.tokens) + 2 >= budget
    assert answers == 2 * count
    # Not by saying nothing: many answers call, and many had to be ended by the budget.
    assert calls > 0.2 * answers and full > 0.1 * answers, (answers, calls, full)


def encoder_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(6, tokenizer().vocab_size, (count, WIDTH)).astype(np.int32)


# --- a valid answer is not changed ---


@settings(max_examples=15)
@given(st.lists(toolsets(), min_size=1, max_size=4), st.integers(0, 999))
def test_a_valid_answer_comes_out_of_the_loop_as_it_went_in(made, seed):
    """Free and constrained decoding of a model that wants a valid answer: the same tokens, forced or chosen."""
    texts = [render_answer([Call(c["name"], c["arguments"]) for c in calls])[0] for _, calls in made]
    wanted = [tokenizer().encode(t) for t in texts]
    budget = max(map(len, wanted)) + 40  # of bytes and of tokens near the end, docs/grammar.md
    for text, (tools, _) in zip(texts, made, strict=True):
        check(text, tools)
    with pytest.MonkeyPatch.context() as patch:
        wishing(patch, follows(tokenizer(), wanted, seed))
        free = asked([Free() for _ in made], tokenizer(), budget)
        guides = [compile_grammar(tools, tokenizer()).matcher(budget + 1) for tools, _ in made]
        constrained = asked(guides, tokenizer(), budget)
    assert [a.tokens for a in free] == wanted
    assert [a.tokens for a in constrained] == wanted
    assert all(a.finished for a in free + constrained)


@pytest.mark.slow
def test_constraining_changes_at_most_one_valid_answer_of_a_hundred(tmp_path):
    """A model trained until most of its free answers are valid, on rows that it has not seen."""
    config = small_config(
        tmp_path, steps=1200, eval_every=1200, log_every=400, data__packing=False, data__batch_size=16, model__d_model=32
    )  # fmt: skip
    run(config)
    model = needlex.load(config.run_dir)
    examples = [Example.from_json(row) for row in run_rows(400)[100:]]
    free, constrained = (model.predict(examples, constrained=c) for c in (False, True))
    valid = same = 0
    for row, before, after in zip(examples, free, constrained, strict=True):
        assert after.error is None
        check(after.text, row.tools)
        if before.error is None and judged(before.text, row.tools):
            valid += 1
            same += before.text == after.text
    assert valid > 100
    assert same >= 0.99 * valid, (valid, same)


def judged(text: str, tools: tuple[Tool, ...]) -> bool:
    try:
        check(text, tools)
    except Exception:  # an invalid answer may fail anywhere
        return False
    return True


# --- tool definitions (T4) and models side by side (C5) ---


def test_every_form_of_a_definition_has_the_same_ids_and_the_same_answers():
    properties = {
        "size": {"type": "integer", "maximum": 9},
        "city": {"enum": ["Rome", "Ur"], "type": "string"},
    }
    schema = {"required": ["city"], "properties": properties, "type": "object"}
    turned = {"type": "object", "properties": {k: dict(reversed(v.items())) for k, v in reversed(properties.items())},
              "required": ["city"]}  # fmt: skip
    flat: dict[str, Any] = {k: dict(v) for k, v in properties.items()}
    flat["city"]["required"] = True
    forms: list[Any] = [
        {"name": "go", "parameters": schema},
        {"parameters": turned, "name": "go"},
        {"name": "go", "parameters": flat},
        {"type": "function", "function": {"name": "go", "parameters": turned}},
        {"name": "go", "parameters": json.dumps(schema)},
    ]
    shown, answers = set(), set()
    for form in forms:
        tools = parse_tools([form, {"name": "stop", "parameters": None}])
        shown.add(tuple(tokenizer().encode(render_tools(tools))))
        guides = [compile_grammar(tools, tokenizer()).matcher(60) for _ in range(8)]
        encoder = encoder_rows(np.random.default_rng(0), 8)
        found = generate(random_engine(1, 0.0), encoder, guides, BUDGET, Sampling(2.0, 1.0, 5))
        answers.add(tuple(tuple(a.tokens) for a in found))
    assert len(shown) == len(answers) == 1


def test_models_tokenizers_and_grammars_in_turns_do_not_meet():
    """Two answers on their way at once, a step of the one and a step of the other, are those of each alone."""

    def begun(which: int) -> loop.Steps:
        made = (tokenizer(), other_tokenizer())[which]
        tools = (TRAPS, parse_tools([{"name": "ping", "parameters": {"x": "string"}}]))[which]
        encoder = encoder_rows(np.random.default_rng(0), 8)
        guides = [compile_grammar(tools, made).matcher(50) for _ in range(8)]
        drawn = Sampling(1.5, 0.95, 7) if which else GREEDY
        return decode(random_engine(which, 0.0), encoder, guides, BUDGET, drawn)

    def finish(steps: loop.Steps) -> list[loop.Answer]:
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return done.value

    alone = [finish(begun(which)) for which in (0, 1)]
    going, done = {which: begun(which) for which in (0, 1)}, {}
    while going:
        for which, steps in list(going.items()):
            try:
                next(steps)
            except StopIteration as end:
                done[which] = end.value
                del going[which]
    for which in (0, 1):
        assert [a.tokens for a in done[which]] == [a.tokens for a in alone[which]]
        for a, b in zip(done[which], alone[which], strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
    assert [a.tokens for a in alone[0]] != [a.tokens for a in alone[1]]


@cache
def other_tokenizer() -> Tokenizer:
    """As many pieces, and others."""
    texts = [t for e in rows() for t in (e.query, e.query.upper())]
    made = train_tokenizer(texts, TokenizerConfig(vocab_size=tokenizer().vocab_size))
    assert made.vocab_size == tokenizer().vocab_size and made.pieces != tokenizer().pieces
    return made
