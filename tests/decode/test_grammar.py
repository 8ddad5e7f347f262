"""Whatever the weights prefer: an answer parses, validates, and ends within the budget; a valid answer is not changed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.data.render import render_answer
from needlex.decode.grammar import Grammar, compile_grammar
from needlex.schema import Call, Example, SchemaError, Tool, parse_tools
from tests.decode.answers import STYLES, check, rows, tokenizer, tool, toolsets, write

SHARED = Path(__file__).parents[2] / "../shared/data"


@settings(max_examples=60)
@given(toolsets(), st.sampled_from(STYLES), st.integers(0, 70), st.integers(0, 999), st.booleans())
def test_any_weights_write_a_valid_answer_within_any_budget(made, style, extra, seed, use_forced):
    tools, _ = made
    grammar = compile_grammar(tools, tokenizer())
    text, _ = write(grammar, grammar.minimum + extra, style, seed, use_forced)
    check(text, tools)
    assert grammar.allows(text)


@settings(max_examples=60)
@given(toolsets())
def test_every_valid_answer_is_admitted_as_the_tokenizer_writes_it(made):
    """Also with not one token to spare, and the forced tokens are always those of the answer."""
    tools, calls = made
    grammar = compile_grammar(tools, tokenizer())
    text = render_answer([Call(c["name"], c["arguments"]) for c in calls])[0]
    assert grammar.allows(text)
    follow(grammar, text, grammar.vocabulary.size)


def follow(grammar: Grammar, text: str, budget: int) -> int:
    """Walk the canonical tokens of an answer through a matcher; how many of them were forced."""
    ids = [*tokenizer().encode(text), 1]
    matcher, row, at, count = grammar.matcher(budget), np.zeros(grammar.vocabulary.words + 1, np.int32), 0, 0
    while not matcher.finished:
        forced = matcher.forced()
        assert forced == ids[at : at + len(forced)], (text, at)
        if not forced:
            mask = matcher.mask()
            assert mask[ids[at]], (text, at)
            assert not mask[[0, 2, 3, 4, 5]].any()
            matcher.fill(row)
            bits = np.unpackbits(row.view(np.uint8), bitorder="little").astype(bool)
            assert np.array_equal(bits[: len(mask)], mask) and not bits[len(mask) :].any()
        for token in forced or [ids[at]]:
            matcher.consume(token)
            at += 1
        count += len(forced)
    assert at == len(ids)
    return count


def test_gold_answers_of_the_embedded_rows_pass_and_half_of_their_tokens_are_forced():
    forced = total = tight = 0
    for row in rows()[:150]:
        grammar = compile_grammar(row.tools, tokenizer())
        text = render_answer(row.calls)[0]
        forced += follow(grammar, text, 200)
        total += len(tokenizer().encode(text)) + 1
        tight += passes(grammar, text, 0)
        assert passes(grammar, text, 2)
    assert forced / total > 0.4
    # What a state needs is known from a text of fewest bytes: now and then one of more bytes has fewer tokens.
    assert tight >= 0.98 * 150


def passes(grammar: Grammar, text: str, spare: int) -> bool:
    """Whether the budget of an answer and `spare` tokens is enough for it."""
    ids = tokenizer().encode(text)
    matcher = grammar.matcher(len(ids) + 1 + spare)
    for token in ids:
        if not matcher.mask()[token]:
            return False
        matcher.consume(token)
    return bool(matcher.mask()[1])


@pytest.mark.parametrize("name", [pytest.param("snips_valid", marks=pytest.mark.slow), "sgd_dev"])
def test_gold_answers_of_other_data_are_admitted_exactly_when_they_validate(name: str):
    path = SHARED / f"{name}.jsonl.gz"
    raws = []
    if path.is_file():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            raws = [json.loads(line) for line, _ in zip(lines, range(400), strict=False)]
    examples = [e for r in raws if (e := readable(r))] or rows()  # without that data, the embedded rows alone
    assert len(examples) > 0.9 * len(raws)
    grammars: dict[tuple[str, ...], Grammar] = {}
    for row in examples:
        tools = {t.name: t for t in row.tools}
        valid = all(
            jsonschema.Draft202012Validator(tools[c.name].to_json()["parameters"]).is_valid(dict(c.arguments))
            for c in row.calls
        )
        key = tuple(json.dumps(t.to_json()) for t in row.tools)
        if key not in grammars:
            grammars[key] = compile_grammar(row.tools, tokenizer())
        assert grammars[key].allows(render_answer(row.calls)[0]) == valid, row


def readable(raw: dict[str, object]) -> Example | None:
    try:
        return Example.from_json(raw)
    except SchemaError:  # such as two tools of one name
        return None


TRAPS = parse_tools(
    [
        {"name": "send", "parameters": {"to": "string", "n": "number"}},
        {"name": "send_message", "parameters": {"list": {"type": "array", "items": {"type": "string"}}}},
        {"name": 'say "hi"\n', "parameters": {'k"': "string", "ключ": "integer"}},
        {"name": "ping", "parameters": None},
        {"name": "größe", "parameters": {"free": "object"}},
    ]
)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '[{"name":"ping","arguments":{}}]',
        '[{"name":"send","arguments":{}}]',
        '[{"name":"send","arguments":{"n":3.5,"to":"x]}"}},{"name":"send_message","arguments":{}}]',
        '[{"name":"send","arguments":{"n":1e-07}}]',
        '[{"name":"send_message","arguments":{"list":["[",",","]\\"","1.234.567,89 €"]}}]',
        '[{"name":"say \\"hi\\"\\n","arguments":{"k\\"":"日本\\n\\u001f","ключ":-7}}]',
        '[{"name":"größe","arguments":{"free":{"b":1,"a":{"b":[null,true,{}]}}}}]',
    ],
)
def test_traps_that_are_right_are_admitted(text: str):
    grammar = compile_grammar(TRAPS, tokenizer())
    assert grammar.allows(text)
    follow(grammar, text, 300)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[1]",
        "[],",
        " []",
        "[] ",
        "[{}]",
        '[{"name":"sen","arguments":{}}]',
        '[{"name":"send_","arguments":{}}]',
        '[{"arguments":{},"name":"ping"}]',
        '[{"name":"ping","arguments":{},"id":1}]',
        '[{"name": "ping","arguments":{}}]',
        '[{"name":"ping","arguments":{}},]',
        '[{"name":"ping","arguments":{"to":"x"}}]',
        '[{"name":"send","arguments":{"to":"x","n":1}}]',
        '[{"name":"send","arguments":{"n":1,"n":1}}]',
        '[{"name":"send","arguments":{"n":3.5.5}}]',
        '[{"name":"send","arguments":{"n":1e999}}]',
        '[{"name":"send","arguments":{"n":NaN}}]',
        '[{"name":"send","arguments":{"n":-}}]',
        '[{"name":"send","arguments":{"n":01}}]',
        '[{"name":"send","arguments":{"to":"\\u0041"}}]',
        '[{"name":"send","arguments":{"to":"\n"}}]',
        '[{"name":"send_message","arguments":{"list":["a",]}}]',
        '[{"name":"send_message","arguments":{"list":[,"a"]}}]',
        '[{"name":"größe","arguments":{"free":{"a":1,"a":2}}}]',
        '[{"name":"größe","arguments":{"free":{"a":1,"b":{},"a":2}}}]',
        "\ud800",
    ],
)
def test_traps_that_are_wrong_are_not(text: str):
    assert not compile_grammar(TRAPS, tokenizer()).allows(text)


def test_integers_have_no_more_digits_than_python_reads():
    grammar = compile_grammar((tool({"n": {"type": "integer"}}),), tokenizer())
    assert grammar.allows('[{"name":"act","arguments":{"n":%s}}]' % ("9" * 20))
    assert not grammar.allows('[{"name":"act","arguments":{"n":%s}}]' % ("9" * 21))


@pytest.mark.parametrize("style", ["quote", "never_close", "nest"])
def test_free_keys_never_repeat(style: str):
    """Weights that love one key meet the same object again and again, up to the end of the budget."""
    tools = (tool({"free": {"type": "object", "additionalProperties": {"type": "null"}}}, ("free",)),)
    grammar = compile_grammar(tools, tokenizer())
    vocabulary = grammar.vocabulary
    for budget in range(grammar.minimum, 130, 7):
        matcher, out = grammar.matcher(budget), []
        love = np.zeros(vocabulary.size)
        for i, piece in enumerate(vocabulary.pieces):
            love[i] = 5 * (piece == b"a") + 4 * (b'"' in piece) + 6 * (b"," in piece) - 9 * (b"}" in piece)
            love[i] += 7 * (style == "nest") * (b"{" in piece) - 4 * (style == "never_close") * (
                b'"' in piece
            )
        while not matcher.finished:
            token = int(np.where(matcher.mask(), love, -np.inf).argmax())
            matcher.consume(token)
            out.append(token)
        assert len(out) <= budget
        check(tokenizer().decode(out), tools)


def test_a_plan_is_known_before_every_token_and_is_an_answer():
    tools = TRAPS
    grammar = compile_grammar(tools, tokenizer())
    rng = np.random.default_rng(0)
    for budget in range(grammar.minimum, 60):
        matcher, out = grammar.matcher(budget), []
        while not matcher.finished:
            plan = matcher.plan()
            assert len(plan) <= matcher.left and plan[-1] == 1
            check(tokenizer().decode([*out, *plan]), tools)
            other = matcher.copy()
            for token in plan:
                assert other.mask()[token]
                other.consume(token)
            assert other.finished and not matcher.finished
            token = int(rng.choice(np.flatnonzero(matcher.mask())))
            matcher.consume(token)
            out.append(token)


def test_a_tight_budget_still_lets_the_shortest_call_through():
    """The budget is counted in tokens: 8 tokens of a call are not refused because they are 31 bytes."""
    tools = parse_tools([{"name": "turn_on", "parameters": {}}])
    grammar = compile_grammar(tools, tokenizer())
    text = '[{"name":"turn_on","arguments":{}}]'
    need = len(tokenizer().encode(text)) + 1
    assert need < len(text) / 2
    matcher = grammar.matcher(need)
    for token in tokenizer().encode(text):
        assert matcher.mask()[token]
        matcher.consume(token)
    short = grammar.matcher(need - 1)
    first = tokenizer().encode(text)[0]
    assert not (short.mask()[first] and len(tokenizer().pieces[first]) > 1)


def test_too_small_a_budget_is_refused():
    grammar = compile_grammar(TRAPS, tokenizer())
    with pytest.raises(ValueError, match="max_new_tokens"):
        grammar.matcher(grammar.minimum - 1)
    assert write(grammar, grammar.minimum, "longest", 0)[0] == "[]"


def test_consuming_what_is_not_offered_raises():
    matcher = compile_grammar(TRAPS, tokenizer()).matcher(50)
    encode = tokenizer().encode
    for token, reason in [(1, "not complete"), (4, "no text"), (encode("x")[0], "not admitted")]:
        with pytest.raises(ValueError, match=reason):
            matcher.consume(token)
    for token in [*encode("[]"), 1]:
        matcher.consume(token)
    assert matcher.finished and matcher.forced() == []
    assert np.flatnonzero(matcher.mask()).tolist() == [0]
    with pytest.raises(ValueError, match="after the end"):
        matcher.consume(1)


def test_the_mask_offers_exactly_the_tokens_that_can_be_consumed():
    grammar = compile_grammar(TRAPS, tokenizer())
    for left in (100, 22, 14):
        matcher = grammar.matcher(left)
        for token in tokenizer().encode('[{"name":"größe","arguments":{"free":{"a":1,"')[: left - 8]:
            if not matcher.mask()[token]:
                break
            mask = matcher.mask()
            for i in range(len(mask)):
                trial = matcher.copy()
                try:
                    trial.consume(i)
                except ValueError:
                    assert not mask[i]
                else:
                    assert mask[i]
            matcher.consume(token)


def test_a_piece_that_is_spelled_as_bytes_is_offered_once():
    mask = compile_grammar((tool({"s": "string"}),), tokenizer()).matcher(90).mask()
    offered = [tokenizer().pieces[i] for i in np.flatnonzero(mask)]
    assert b"[" in offered and len(set(offered)) == len(offered)


def test_the_number_of_calls_is_bounded_where_it_is_asked_for():
    call = '{"name":"ping","arguments":{}}'
    tools = parse_tools([{"name": "ping"}])
    three = compile_grammar(tools, tokenizer(), max_calls=3)
    free = compile_grammar(tools, tokenizer())
    for n in range(6):
        text = "[" + ",".join([call] * n) + "]"
        assert three.allows(text) == (n <= 3) and free.allows(text)
    with pytest.raises(ValueError, match="max_calls"):
        compile_grammar(tools, tokenizer(), max_calls=0)
    with pytest.raises(ValueError, match="at least one tool"):
        compile_grammar((), tokenizer())


def test_a_grammar_does_not_depend_on_the_order_of_definitions():
    one: Tool = tool({"b": {"type": "string"}, "a": {"type": "integer"}}, ("b", "a"))
    other: Tool = tool({"a": {"type": "integer"}, "b": {"type": "string"}}, ("a", "b"))
    answers = [write(compile_grammar((t,), tokenizer()), 60, "random", 3) for t in (one, other)]
    assert answers[0] == answers[1]


def test_tokenizers_do_not_keep_one_another_alive():
    import gc
    import weakref

    from needlex.data.tokenizer import Tokenizer

    mine = Tokenizer(tokenizer().proto)
    grammar = compile_grammar(TRAPS, mine)
    seen = weakref.ref(mine), weakref.ref(grammar)
    del mine, grammar
    gc.collect()
    assert seen[0]() is None and seen[1]() is None


def test_a_tokenizer_that_puts_a_space_before_the_text():
    """Needle v1's: its answers begin with the space that decoding takes away again."""
    import io

    import sentencepiece as spm

    from needlex.data.tokenizer import Tokenizer

    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([render_answer(r.calls)[0] for r in rows()]), model_writer=model, model_type="bpe",
        vocab_size=400, byte_fallback=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3, minloglevel=2,
        user_defined_symbols=["<tool_call>", "<tools>"], num_threads=1,
    )  # fmt: skip
    mine = Tokenizer(model.getvalue())
    assert mine.dummy_prefix
    row = next(r for r in rows() if r.calls)
    grammar = compile_grammar(row.tools, mine)
    text = render_answer(row.calls)[0]
    matcher = grammar.matcher(100)
    for token in mine.encode(text):
        assert matcher.mask()[token]
        matcher.consume(token)
    assert grammar.allows(text) and matcher.mask()[1]
    for seed in range(12):
        budget = grammar.minimum + 3 * seed
        _, ids = write(grammar, budget, STYLES[seed % len(STYLES)], seed)
        check(mine.decode(ids), row.tools)
