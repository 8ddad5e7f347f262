"""The Python door: what a model that `needlex.load` gave can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from operator import index
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from needlex.data.config import DataConfig
from needlex.data.encode import TooLong
from needlex.data.render import RenderConfig
from needlex.data.tokenizer import Tokenizer
from needlex.decode.engine import Engine
from needlex.decode.loop import GREEDY, Sampling
from needlex.decode.predict import Prediction, predict, stream
from needlex.decode.retrieve import Choice, Ranked, Retriever, choose_tools
from needlex.decode.stream import Event, Finished, ToolsChosen, answer_events
from needlex.functions import as_tools, invoke, tool_of
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Call, Example, SchemaError, Tool
from needlex.train.config import TrainConfig


class AnswerError(ValueError):
    """The model's answer is no list of calls; `text` is what it wrote."""

    def __init__(self, reason: str, text: str):
        super().__init__(reason, text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.args[0]}; the model wrote {self.text!r}"


class Calls(list[Call]):
    """The calls that answer a query: a list, and what else is known about it."""

    def __init__(self, calls: Sequence[Call], answer: Prediction, choice: Choice):
        super().__init__(calls)
        self.text = answer.text
        """The answer as the model wrote it."""
        self.log_probability = answer.log_probability
        """Of the whole answer, nats."""
        self.log_probabilities = answer.call_log_probabilities
        """Of each call, nats: what the model gave by itself, without grammar and temperature."""
        self.tools = tuple(t.name for t in choice.tools)
        """Names of the tools that the model was offered."""
        self.note = choice.reason
        """Why these were not all tools; None when they were."""


class Ran(NamedTuple):
    """A call and what its function returned."""

    call: Call
    result: Any


class Results(list[Ran]):
    """Calls with what their functions returned, in order; `answer` is what the model said."""

    def __init__(self, answer: Calls):
        super().__init__()
        self.answer = answer
        """All calls, with their probabilities and which tools were offered."""


class ToolCaller:
    """A loaded model with all that it needs to answer: tokenizer, rendering, budgets. Holds no hidden state."""

    def __init__(
        self, model: Seq2Seq, config: ModelConfig, tokenizer: Tokenizer | None, render: RenderConfig,
        max_encoder: int = 1024, max_decoder: int = 512, run: TrainConfig | None = None,
    ):  # fmt: skip
        """`max_encoder` and `max_decoder` are token budgets of query + tools and of the answer.

        **Raises:** `ValueError` when the tokenizer has another number of pieces than the model's table has rows.
        """
        if tokenizer is not None and tokenizer.vocab_size != config.vocab_size:
            raise ValueError(
                f"the tokenizer has {tokenizer.vocab_size} pieces, the model's table {config.vocab_size} rows; give the "
                "tokenizer that the model was trained with"
            )
        self.run_config = run
        """Configuration of the run that made the model, if it comes from one."""
        self.model = model
        self.config = config
        """Shape of the model."""
        self.render, self.max_encoder, self.max_decoder = render, max_encoder, max_decoder
        self._tokenizer = tokenizer
        # Static parts are compiled in, arrays are arguments: two models in a process share nothing.
        self._params, static = eqx.partition(model, eqx.is_array)

        def batched(method):
            return jax.jit(
                lambda params, *args: jax.vmap(lambda *row: method(eqx.combine(params, static), *row))(*args)
            )

        self._logits = batched(lambda m, e, d, es, ds: m(e, d, es, ds))
        self._encode = batched(lambda m, e, es: m.encode(e, es))
        self._embed = batched(lambda m, t: m.embed(t))

    @property
    def tokenizer(self) -> Tokenizer:
        """**Raises:** `ValueError` for a model that came without one (Needle v1 pickles hold none)."""
        if self._tokenizer is None:
            raise ValueError(
                "this checkpoint holds no tokenizer; use needlex.load(path, tokenizer='some.model')"
            )
        return self._tokenizer

    def logits(
        self, enc: Any, dec: Any, enc_segments: Any = None, dec_segments: Any = None
    ) -> Float[Array, "*b t v"]:
        """float32 logits for encoder ids [b, e] and decoder ids [b, t] (or one row without b).

        Without segment ids, id 0 is padding that nobody reads.
        """
        enc, dec, es, ds, one = self._ids(enc, dec, enc_segments, dec_segments)
        out = self._logits(self._params, enc, dec, es, ds)
        return out[0] if one else out

    def encode(self, enc: Any, enc_segments: Any = None) -> Float[Array, "*b e d"]:
        """Encoder states for ids [b, e] (or one row)."""
        enc, segments, one = self._ids(enc, enc_segments)
        out = self._encode(self._params, enc, segments)
        return out[0] if one else out

    def embed(self, tokens: Any) -> Float[Array, "*b m"]:
        """Retrieval embeddings of unit length for ids [b, n] (or one row), 0 is padding."""
        tokens, one = self._ids(tokens)
        out = self._embed(self._params, tokens)
        return out[0] if one else out

    def _ids(self, *arrays: Any) -> tuple[Any, ...]:
        one = np.ndim(arrays[0]) == 1
        shaped = []
        for a in arrays:
            if a is None:
                shaped.append(None)
                continue
            ids = jnp.asarray(a, jnp.int32)
            shaped.append(ids[None] if one else ids)
        for ids, raw in zip(shaped, arrays, strict=True):
            if raw is not None and ids.ndim != 2:
                raise ValueError(
                    f"ids must be [rows, positions] or [positions], not of shape {np.shape(raw)}"
                )
        return *shaped, one

    @cached_property
    def engine(self) -> Engine:
        """The model made ready to decode."""
        return Engine(self.model)

    @cached_property
    def retriever(self) -> Retriever:
        """Ranks tools for queries; remembers the embeddings of tools."""
        data = self.run_config.data if self.run_config is not None else DataConfig()
        weight = self.run_config.loss.contrastive_weight if self.run_config is not None else None
        return Retriever(self.model, self.tokenizer, self.render, data.max_query, data.max_tool, weight)

    def predict(
        self, examples: Sequence[Example], batch_size: int = 32, max_new_tokens: int | None = None,
        constrained: bool = True, sampling: Sampling = GREEDY,
    ) -> list[Prediction]:  # fmt: skip
        """Answer texts for rows, in order; rows that do not fit come back with an error, never dropped.

        `constrained` admits only answers that are valid for the row's tools; without, the model writes what it likes.
        """
        requests = [(e.query, e.tools) for e in examples]
        return predict(
            self.engine, self.tokenizer, requests, self.render, self.max_encoder, self._limit(max_new_tokens),
            batch_size, constrained, sampling,
        )  # fmt: skip

    def call(
        self, query: str, tools: Any, max_new_tokens: int | None = None, constrained: bool = True,
        sampling: Sampling = GREEDY, max_tools: int | None = None,
    ) -> Calls:  # fmt: skip
        """The calls that answer `query` with `tools`: definitions of any supported form, JSON of them, Python functions,
        pydantic models.

        When query and tools exceed the encoder budget, or the tools `max_tools`, the nearest ones by the retrieval head
        are offered, and `note` of the result says so.

        **Raises:** `SchemaError` for bad tools or an empty query, `ValueError` when query and tools exceed the encoder
        budget and none can be chosen or when `max_new_tokens` are too few for any answer, `AnswerError` when what the
        model wrote is no list of calls.
        """
        calls: tuple[Call, ...] = ()
        answer, choice = Prediction(""), self._choose(query, as_tools(tools), max_tools)
        for event in self._events(query, choice, max_new_tokens, constrained, sampling):
            if isinstance(event, Prediction):
                answer = event
            elif isinstance(event, Finished):
                calls = event.calls
        return Calls(calls, answer, choice)

    def stream(
        self, query: str, tools: Any, max_new_tokens: int | None = None, constrained: bool = True,
        sampling: Sampling = GREEDY, max_tools: int | None = None,
    ) -> Iterator[Event]:  # fmt: skip
        """As `call`, event by event while the model writes: pieces of text, a call opened, an argument finished, a call
        finished, and at last `Finished` with all calls.

        **Raises:** what `call` raises; `AnswerError` after all other events.
        """
        choice = self._choose(query, as_tools(tools), max_tools)
        if choice.reason is not None:
            yield ToolsChosen(tuple(t.name for t in choice.tools), choice.reason)
        for event in self._events(query, choice, max_new_tokens, constrained, sampling):
            if not isinstance(event, Prediction):
                yield event

    def run(
        self, query: str, functions: Callable[..., Any] | Iterable[Callable[..., Any]], *,
        max_new_tokens: int | None = None, sampling: Sampling = GREEDY, max_tools: int | None = None,
    ) -> Results:  # fmt: skip
        """Answer `query` with Python functions, carry the calls out in their order, and return them with their results.

        **Raises:** what `call` raises, and `SchemaError` for what is no function or two of one name, before anything is
        carried out; what a function raises, with a note that names the call.
        """
        by_name: dict[str, Callable[..., Any]] = {}
        for f in [functions] if callable(functions) else functions:
            if not callable(f):
                raise SchemaError(
                    f"{f!r} is no function; `call` takes definitions, `run` what carries them out"
                )
            name = tool_of(f).name
            if by_name.setdefault(name, f) != f:
                raise SchemaError(f"two functions are called {name!r}; names must be unique")
        done = Results(self.call(query, list(by_name.values()), max_new_tokens, True, sampling, max_tools))
        for call in done.answer:
            try:
                done.append(Ran(call, invoke(by_name[call.name], call.arguments)))
            except Exception as e:
                e.add_note(f"in {call.name}({dict(call.arguments)}); calls carried out before: {len(done)}")
                raise
        return done

    def retrieve(self, query: str, tools: Any, k: int | None = None) -> list[Ranked]:
        """The `k` tools (all if None) nearest to `query` by the retrieval head, best first.

        **Raises:** `ValueError` when that head was not trained; `SchemaError` for bad tools or an empty query.
        """
        return self.retriever.rank(_checked(query), as_tools(tools), k)

    def _choose(self, query: str, tools: tuple[Tool, ...], max_tools: int | None) -> Choice:
        try:
            return choose_tools(self.retriever, _checked(query), tools, self.max_encoder, max_tools)
        except TooLong as e:
            raise ValueError(f"too_long: {e}") from None

    def _limit(self, max_new_tokens: int | None) -> int:
        if max_new_tokens is None:
            return self.max_decoder
        try:
            return index(max_new_tokens) + 1
        except TypeError:
            raise ValueError(f"max_new_tokens is {max_new_tokens!r}; it must be a whole number") from None

    def _events(
        self, query: str, choice: Choice, max_new_tokens: int | None, constrained: bool, sampling: Sampling
    ) -> Iterator[Event | Prediction]:
        """Events of one answer; the prediction comes before `Finished`."""
        answers: list[Prediction] = []

        def steps() -> Iterator[list[int]]:
            for found in stream(
                self.engine, self.tokenizer, query, choice.tools, self.render, self.max_encoder,
                self._limit(max_new_tokens), constrained, sampling,
            ):  # fmt: skip
                if isinstance(found, Prediction):
                    answers.append(found)
                else:
                    yield found

        try:
            for event in answer_events(self.tokenizer, steps()):
                if isinstance(event, Finished):
                    (answer,) = answers
                    if answer.error is not None:
                        raise AnswerError(answer.error, answer.text)
                    yield answer
                yield event
        except SchemaError as e:
            if not answers:  # before the first token: a tool's schema
                raise
            raise AnswerError(answers[0].error or str(e), answers[0].text) from None


def _checked(query: Any) -> str:
    if not isinstance(query, str):
        raise SchemaError(f"the query must be text, not {type(query).__name__}")
    if not query.strip():
        raise SchemaError("the query is empty; say in words what is to be done")
    return query
