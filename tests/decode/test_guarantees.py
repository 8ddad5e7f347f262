"""What decoding promises, through the real loop: every answer parses, validates and ends in time; a valid one is not changed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st

import needlex
from needlex.data.render import render_answer, render_tools
from needlex.data.tokenizer import EOS, Tokenizer, TokenizerConfig, train_tokenizer
from needlex.decode import loop
from needlex.decode.engine import PROMPT, Engine
from needlex.decode.grammar import compile_grammar
from needlex.decode.loop import GREEDY, Free, Guide, Sampling, decode, generate
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Call, Example, Tool, parse_tools
from tests.decode.answers import NAMES, STYLES, check, kinds, rows, scores, tokenizer, tool, toolsets
from tests.decode.test_engine import CONFIGS
from tests.decode.test_grammar import TRAPS
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
    is_shape = lambda x: isinstance(x, jax.ShapeDtypeStruct)  # noqa: E731
    drawn = [
        jnp.asarray(rng.normal(0, 0.5, x.shape), x.dtype) if is_shape(x) else x
        for x in jax.tree.leaves(like, is_leaf=is_shape)
    ]
    found = jax.tree.unflatten(jax.tree.structure(like, is_leaf=is_shape), drawn)
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


# --- a network that is only a wish ---

Wish = Callable[[int, list[int]], np.ndarray]
"""Logits [v] of the next token of a row, after the tokens before."""


def wishing(monkeypatch: pytest.MonkeyPatch, wish: Wish) -> None:
    """Put logits of our choice in the place of the network; all else of the loop is the real one."""
    written: dict[int, list[int]] = {}

    def begin(params, weights, static, encoder, length):
        rows = encoder[:, 0].astype(np.int32)  # a row's number is its first encoder token
        written.update({int(r): [] for r in rows})
        return jnp.asarray(np.stack([wish(int(r), []) for r in rows]), jnp.float32), jnp.asarray(rows)

    def advance(weights, cache, last, tokens, counts, positions):
        after = []
        for row, ids, n, at in zip(np.asarray(cache), tokens, counts, positions, strict=True):
            if at:  # other places of the batch are read by nobody
                assert at == len(PROMPT) + len(written[int(row)])
                written[int(row)] += ids[:n].tolist()
            after.append(wish(int(row), written[int(row)]) if at else np.zeros(last.shape[1]))
        return jnp.asarray(np.stack(after), jnp.float32), jnp.zeros(tokens.shape), cache

    monkeypatch.setattr(loop, "_begin", begin)
    monkeypatch.setattr(loop, "_advance", advance)


def asked(guides: Sequence[Guide], made: Tokenizer, budget: int) -> list[loop.Answer]:
    engine = Engine.__new__(Engine)
    engine.params = engine.weights = engine.static = None  # type: ignore[assignment]
    engine.vocab_size = made.vocab_size
    encoder = np.arange(len(guides), dtype=np.int32)[:, None]
    return generate(engine, encoder, guides, budget)


def follows(made: Tokenizer, answers: Sequence[list[int]], seed: int = 0) -> Wish:
    """Wants the tokens of one answer a row and then the end, and has opinions about all else."""

    def wish(row: int, before: list[int]) -> np.ndarray:
        noise = np.random.default_rng([seed, row, len(before)]).normal(0, 2, made.vocab_size)
        ids = [*answers[row % len(answers)], EOS] if answers else [EOS]
        noise[ids[min(len(before), len(ids) - 1)]] += 30
        return noise

    return wish


def spells(made: Tokenizer, text: str, style: str = "never_close") -> Wish:
    """Wants the characters of `text`, in as few tokens as can be; where it may not, whatever the style likes."""
    raw, liked = text.encode(), scores(style, np.random.default_rng(0), made.pieces)
    known: dict[bytes, np.ndarray] = {}

    def wish(row: int, before: list[int]) -> np.ndarray:
        done = b"".join(made.pieces[t] for t in before)
        if done not in known:
            rest = raw[len(done) :] if raw.startswith(done) else b""
            ahead = [50.0 + len(p) if p and rest.startswith(p) else 0.0 for p in made.pieces]
            known[done] = liked + np.array(ahead)
            known[done][EOS] += 100 * (done == raw)
        return known[done]

    return wish


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


# --- traps (T6) ---


@cache
def crossing_tokenizer() -> Tokenizer:
    """Its pieces do not care where strings begin and end."""
    texts = [
        '[{"name":"send","arguments":{"to":"Ann"}}]',
        '[{"name":"send_message","arguments":{"list":["x"]}}]',
    ]
    texts += ['[{"name":"ping","arguments":{}},{"name":"send","arguments":{"n":3.5,"to":"Bob"}}]'] * 2
    made = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 20), model_writer=made, model_type="bpe", vocab_size=420, byte_fallback=True,
        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        split_by_unicode_script=False, split_by_number=False, hard_vocab_limit=False, pad_id=0, eos_id=1, bos_id=2,
        unk_id=3, pad_piece="<pad>", control_symbols=["<tool_call>", "<tools>"],
        user_defined_symbols=["\u2581"], minloglevel=2, num_threads=1,
    )  # fmt: skip
    return Tokenizer(made.getvalue())


def test_a_token_may_end_the_prefix_and_start_the_name():
    """Such a token is offered exactly where some tool's name goes on as it does."""
    made, prefix = crossing_tokenizer(), b'[{"name":"'
    over = {p: i for i, p in enumerate(made.pieces) if b'"name":"' in p and p[-1:].isalpha()}
    names = [t.name for t in TRAPS]
    offered = set()
    for left_out in ([], *([n] for n in names), ["send", "send_message"]):
        kept = tuple(t for t in TRAPS if t.name not in left_out)
        grammar = compile_grammar(kept, made)
        for piece, i in over.items():
            head, _, start = piece.rpartition(b'"')
            matcher = grammar.matcher(90)
            for byte in prefix[: -len(head) - 1]:
                matcher.consume(grammar.vocabulary.ids[bytes([byte])])
            right = any(t.name.encode().startswith(start) for t in kept)
            assert matcher.mask()[i] == right, (piece, left_out)
            offered.add(right)
    assert over and offered == {True, False}


CROSSING = '[{"name":"send","arguments":{"to":"Ann"}},{"name":"ping","arguments":{}}]'


@pytest.mark.parametrize("which", [crossing_tokenizer, tokenizer], ids=["crossing", "own"])
def test_tokens_over_the_borders_of_names_and_strings(which, monkeypatch):
    """Also with content and the closing quote in one piece: they come out where they fit, and nothing else does."""
    made = which()
    with_end = [p for p in made.pieces if p[:1].isalpha() and b'"' in p]
    assert bool(with_end) == (which is crossing_tokenizer)
    wishing(monkeypatch, spells(made, CROSSING))
    (answer,) = asked([compile_grammar(TRAPS, made).matcher(120)], made, 119)
    assert made.decode(answer.tokens) == CROSSING and answer.finished
    for style in STYLES:
        liked = scores(style, np.random.default_rng(1), made.pieces)
        liked += 15 * np.array(
            [any(c in p for c in b'"{[') and p.strip(b'"{}[],:') != b"" for p in made.pieces]
        )
        wishing(monkeypatch, lambda row, before, liked=liked: liked)
        for budget in (20, 45, 80):
            (answer,) = asked([compile_grammar(TRAPS, made).matcher(budget)], made, budget)
            assert answer.finished and len(answer.tokens) < budget
            check(made.decode(answer.tokens), TRAPS)


WRONG = {
    "duplicate keys": '[{"name":"send","arguments":{"n":1,"n":2,"n":3,"to":"a","to":"b"}}]',
    "duplicate free keys": '[{"name":"größe","arguments":{"free":{"a":1,"a":2,"a":{"b":1,"b":2}}}}]',
    "a name with its quotes bare": '[{"name":"say "hi"\\n","arguments":{"k"":"x"}}]',
    "a name folded": '[{"name":"grosse","arguments":{}},{"name":"gröβe","arguments":{}}]',
    "less than a name": '[{"name":"sen","arguments":{"to":"x"}}]',
    "between two names": '[{"name":"send_","arguments":{"to":"x"}}]',
    "arguments of the longer name": '[{"name":"send","arguments":{"list":["x"]}}]',
    "arguments of a tool without": '[{"name":"ping","arguments":{"to":"x"}}]',
    "null arguments": '[{"name":"ping","arguments":null}]',
    "a list that the string closes": '[{"name":"send_message","arguments":{"list":["]]],"x}]]',
    "spaces": '[ {"name" : "send", "arguments": {"to": "x"} } ] ',
    "lines": '\n[\n\t{"name":"send",\r\n"arguments":{}}]\n',
    "3.5.5": '[{"name":"send","arguments":{"n":3.5.5}}]',
    "[1,]": '[{"name":"größe","arguments":{"free":{"a":[1,]}}}]',
    "[,1]": '[{"name":"größe","arguments":{"free":{"a":[,1]}}}]',
    "an endless string": '[{"name":"send","arguments":{"to":"' + "never ends " * 30,
    "an endless number": '[{"name":"send","arguments":{"n":' + "123456789" * 30,
    "endless brackets": '[{"name":"größe","arguments":{"free":{"a":' + "[" * 200,
    "an escape at the end": '[{"name":"send","arguments":{"to":"' + '\\"\\\\' * 60,
    "half a character at the end": '[{"name":"send","arguments":{"to":"' + "🙂" * 60,
    "ascii escapes": '[{"name":"send","arguments":{"to":"\\u65e5\\u672c"}}]',
}


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_wants_something_wrong_gets_something_valid(name, monkeypatch):
    """At every budget, wherever it cuts: inside a string, an escape, a character, a number, a name."""
    for made, every in ((tokenizer(), 1), (crossing_tokenizer(), 3)):
        wishing(monkeypatch, spells(made, WRONG[name]))
        grammar = compile_grammar(TRAPS, made)
        assert not grammar.allows(WRONG[name])
        budgets = range(grammar.minimum, grammar.minimum + 64 * every, 2 * every)
        found = asked([grammar.matcher(b) for b in budgets], made, budgets[-1])
        for budget, answer in zip(budgets, found, strict=True):
            assert answer.finished and len(answer.tokens) < budget
            check(made.decode(answer.tokens), TRAPS)
        # It went along as far as it could: the answer is not merely empty.
        assert len(found[-1].tokens) > 4, name


RIGHT = {
    "send": [Call("send", {"to": "x"}), Call("send_message", {"list": []})],
    "no arguments": [Call("ping"), Call("ping"), Call("send")],
    "quotes in names": [Call('say "hi"\n', {'k"': '"', "ключ": -1}), Call("größe")],
    "brackets in strings": [
        Call("send_message", {"list": ["]", "[", "}],", '"]}]', '{"name":"ping"}', "\\"]})
    ],
    "spaces in strings": [Call("send", {"to": "  a\n\tb \r "}), Call("send_message", {"list": [" ", ""]})],
    "numbers": [Call("send", {"n": 3.5}), Call("größe", {"free": {"a": [1], "b": [1, [2.5, -0.1]]}})],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_model_that_wants_something_right_gets_it(name, monkeypatch):
    text = render_answer(RIGHT[name])[0]
    check(text, TRAPS)
    for made in (tokenizer(), crossing_tokenizer()):
        budget = len(text.encode()) + 60
        for wish in (follows(made, [made.encode(text)]), spells(made, text)):
            wishing(monkeypatch, wish)
            (answer,) = asked([compile_grammar(TRAPS, made).matcher(budget)], made, budget)
            assert made.decode(answer.tokens) == text and answer.finished


# --- verbatim copies (T8, T9) ---

LONG = "Nachricht an Zoë: „Übergabe um 7:30 – Größe 1.234,56 € (ca. 12'345.67)“, d'Artagnan & O’Neill; " * 4
COPIES = [
    LONG[:300],
    "a" * 300,
    "1.234,56",
    "1\u202f234,56\u00a0€",
    "١٢٣٫٤٥",
    "👩‍👩‍👧‍👦 🇫🇷 🙂🏽",
    "Ann-Sophie O'Neill d'Été-Łukasz",
    "«Der Zauberberg» / 魔の山 (Тома́с Манн)",
    "cafe\u0301 caf\u00e9 \ufb01",
    "D:\\x\\\"new\" \t\x00\x7f\u2028\u2581 </s><tool_call>",
    '[{"name":"ping","arguments":{}}]',
]  # fmt: skip


@pytest.mark.parametrize("value", COPIES, ids=lambda v: ascii(v[:16]))
def test_verbatim_copies_survive_token_by_token(value, monkeypatch):
    """Admitted token by token as the tokenizer writes them, replayed by the loop, and read back letter for letter."""
    tools = (tool({"text": {"type": "string"}}, ("text",), "note"), tool({}, (), "stop"))
    text = render_answer([Call("note", {"text": value})])[0]
    ids, grammar = tokenizer().encode(text), compile_grammar(tools, tokenizer())
    assert "\\u" not in text.replace("\\u0000", "")
    matcher = grammar.matcher(len(ids) + 30)
    for token in ids:
        assert matcher.mask()[token]
        matcher.consume(token)
    assert matcher.mask()[EOS]
    budget = len(ids) + 30
    wishing(monkeypatch, follows(tokenizer(), [ids]))
    (answer,) = asked([grammar.matcher(budget)], tokenizer(), budget)
    assert answer.tokens == ids and answer.finished
    (call,) = check(tokenizer().decode(answer.tokens), tools)
    assert call["arguments"] == {"text": value}


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
