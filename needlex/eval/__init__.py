"""How well predicted calls agree with the expected ones."""

from needlex.eval.explain import failures
from needlex.eval.metrics import parse_calls, score
from needlex.eval.report import Report, summary

__all__ = ["Report", "failures", "parse_calls", "score", "summary"]
