"""The caller's names come back exactly: nothing between definition and call folds, trims or normalises them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.data.render import render_answer, render_tools
from needlex.decode.grammar import compile_grammar
from needlex.schema import Call, Tool, load_json, parse_tools
from tests.decode.answers import STYLES, check, tokenizer, write

COMPOSED, APART = "caf\u00e9", "cafe\u0301"
NAMES = [
    "set_light", "setLight", "SetLight", "set.light", "set-light", "set light", " set_light", "setlight",
    "send", "send_message", "send_message_2", "Send", "s",
    COMPOSED, APART, "CAF\u00c9", "cafe", "\u212bngstr\u00f6m", "\u00c5ngstr\u00f6m", "\ufb01nd", "find", "stra\u00dfe", "strasse",
    "\u540d\u524d", "ns.tool.run", "ns.tool", "a/b", 'say "hi"', "back\\slash", "tab\there", "name", "arguments", "\U0001f4a1", "\u2581x",
    "\u0130", "i\u0307", "\u03c3", "\u03c2",
]  # fmt: skip
"""Each beside others that it becomes under some folding: case, separators, Unicode forms, prefixes."""
FOLDS: list[Callable[[str], str]] = [
    str.lower, str.upper, str.title, str.casefold, str.strip,
    *(lambda s, form=form: unicodedata.normalize(form, s) for form in ("NFC", "NFD", "NFKC", "NFKD")),
    lambda s: s.replace("_", "").replace(".", ""), lambda s: s.replace(".", "_").replace("-", "_"),
    lambda s: s[:-1], lambda s: s + "x", lambda s: s.replace("\u2581", " "),
]  # fmt: skip


def tools_of(names: list[str]) -> tuple[Tool, ...]:
    """Each tool has one required argument of its own name, and one optional that is called like the next tool."""
    made = []
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        properties = {name: {"type": "boolean"}, other: {"type": "boolean"}}
        schema = {"type": "object", "properties": properties, "required": [name]}
        made.append({"name": name, "parameters": schema})
    return parse_tools(made)


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True), st.sampled_from(STYLES), st.integers(0, 999)
)  # fmt: skip
def test_what_is_written_has_the_names_of_the_caller(names, style, seed):
    tools = tools_of(names)
    text, ids = write(compile_grammar(tools, tokenizer(), 2), 150, style, seed)
    assert tokenizer().decode(ids) == text
    for raw in check(text, tools):
        call = Call.from_json(raw)
        assert call.name in names and set(call.arguments) <= set(names) and call.name in call.arguments


def test_every_name_is_offered_beside_all_others_and_its_foldings_are_not():
    tools = tools_of(NAMES)
    grammar = compile_grammar(tools, tokenizer())
    assert [t.name for t in tools] == NAMES and len(set(NAMES)) == len(NAMES)
    written = set()
    for name in NAMES:
        text = render_answer([Call(name, {name: True})])[0]
        matcher = grammar.matcher(len(tokenizer().encode(text)) + 20)
        for token in tokenizer().encode(text):
            assert matcher.mask()[token], (name, text)
            matcher.consume(token)
        assert matcher.mask()[1]
        (call,) = [Call.from_json(c) for c in load_json(text, "the answer")]
        assert call == Call(name, {name: True})
        written.add(text)
        for folded in {fold(name) for fold in FOLDS} - set(NAMES):
            assert not grammar.allows(render_answer([Call(folded, {name: True})])[0]), (name, folded)
            assert not grammar.allows(render_answer([Call(name, {folded: True})])[0]), (name, folded)
    assert len(written) == len(NAMES)


@pytest.mark.parametrize("pair", [(COMPOSED, APART), (APART, COMPOSED)], ids=["first", "other"])
def test_composed_and_decomposed_names_are_two_tools_with_two_answers(pair):
    name, other = pair
    tools = parse_tools([{"name": name, "parameters": {name: "boolean"}}, {"name": other}])
    grammar = compile_grammar(tools, tokenizer())
    assert grammar.allows(render_answer([Call(name, {name: True}), Call(other)])[0])
    assert not grammar.allows(render_answer([Call(other, {name: True})])[0])
    assert not grammar.allows(render_answer([Call(name, {other: True})])[0])
    shown = tokenizer().decode(tokenizer().encode(render_tools(tools)))
    assert shown == f"{name}({name}:bool)\n{other}()"


def test_a_model_that_prefers_another_spelling_gets_the_one_that_is_given():
    """Wherever a choice is left, the token is taken that the wished text would have; the name stays the caller's."""
    for name, wished in [
        ("setLight", "set_light"),
        (APART, COMPOSED),
        ("send", "send_message"),
        ("ns.tool", "ns_tool"),
    ]:
        tools = parse_tools([{"name": name}, {"name": "other"}])
        matcher = compile_grammar(tools, tokenizer(), 1).matcher(60)
        wish = tokenizer().encode(render_answer([Call(wished)])[0])
        out: list[int] = []
        while not matcher.finished:
            mask = matcher.mask()
            liked = wish[len(out)] if len(out) < len(wish) else 1
            shared = [
                t for t in tokenizer().encode(render_answer([Call(name)])[0])[len(out) :][:1] if mask[t]
            ]
            token = liked if mask[liked] else shared[0] if shared else int(mask.argmax())
            matcher.consume(token)
            out.append(token)
        assert [c["name"] for c in load_json(tokenizer().decode(out), "the answer")] in ([name], ["other"])
