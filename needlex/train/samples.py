"""Sample calls of a model in training, as a Markdown card."""

from __future__ import annotations

from collections.abc import Sequence

from needlex.data.config import DataConfig
from needlex.data.render import render_answer
from needlex.data.tokenizer import Tokenizer
from needlex.decode.engine import Engine
from needlex.decode.predict import predict
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Example


def sample_calls(model: Seq2Seq, examples: Sequence[Example], tokenizer: Tokenizer, data: DataConfig) -> str:
    """What the model answers to `examples`, beside what is right."""
    answers = predict(
        Engine(model),
        tokenizer,
        [(e.query, e.tools) for e in examples],
        data.render,
        data.max_encoder,
        data.max_decoder,
        constrained=False,  # what the weights say by themselves shows how far they are
    )
    lines = ["| query | model | expected | |", "| --- | --- | --- | --- |"]
    for example, answer in zip(examples, answers, strict=True):
        expected = render_answer(example.calls)[0]
        mark = "ok" if answer.text == expected else "**wrong**"
        cells = (example.query, answer.error or answer.text, expected)
        lines.append("| " + " | ".join(_cell(c) for c in cells) + f" | {mark} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("\n", " ").replace("`", "'") + "`" if text else ""
