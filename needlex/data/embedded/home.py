"""Tools of the smart home, from the sentence templates of `home-assistant-intents` (data/en.json).

An intent there has blocks of sentences, each with the slots it fills; `home_rules` says which tool a block
belongs to, `home.txt` what the tools are called and take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from needlex.data.embedded.home_rules import LISTS, OVERRIDES, REWRITES, RULES, Rule
from needlex.data.embedded.pools import Closed, Pool
from needlex.data.embedded.source import read_tools
from needlex.data.embedded.templates import Template, compile_expression
from needlex.data.embedded.values import pools
from needlex.schema import Tool


@cache
def _english() -> dict[str, Any]:
    return json.loads((files("home_assistant_intents") / "data" / "en.json").read_text(encoding="utf-8"))


def _closed_lists() -> dict[str, Pool]:
    """The enumerations of the original, all spellings of each value."""
    found: dict[str, Pool] = {}
    for name, content in _english()["lists"].items():
        if "values" in content:
            spellings = {text: v["out"] for v in content["values"] for text in _spellings(v["in"])}
            found[name] = Closed(spellings)
    plural = {
        "awnings",
        "blinds",
        "curtains",
        "doors",
        "garage doors",
        "gates",
        "shades",
        "shutters",
        "windows",
    }
    classes = {t: v for t, v in _closed_pairs("cover_classes") if t in plural}
    return found | {
        "cover_classes": Closed(classes),
        "volume_step": Closed({"up": "up", "down": "down"}),
        "volume_change": Closed({"increase": "up", "raise": "up", "decrease": "down", "lower": "down"}),
    }


def _closed_pairs(name: str) -> list[tuple[str, Any]]:
    return [(t, v["out"]) for v in _english()["lists"][name]["values"] for t in _spellings(v["in"])]


def _spellings(template: str) -> list[str]:
    """All texts of a small template: `(cold|cool) white`, `auto[matic]`."""
    match = re.search(r"\(([^()]*)\)|\[([^\[\]]*)\]", template)
    if not match:
        return [" ".join(template.split())]
    choices = match[1].split("|") if match[1] is not None else ["", match[2]]
    return [s for c in choices for s in _spellings(template[: match.start()] + c + template[match.end() :])]


def home_tools() -> list[tuple[Tool, str, list[Template]]]:
    """The smart home's tools with domain and templates; they depend on the version of the intents package."""
    pool = {**pools(), **_closed_lists()}
    tools = read_tools("home.txt", pool)
    templates = {tool.name: found for tool, _, found in tools}
    original = {**_english()["expansion_rules"], **OVERRIDES}
    for intent, rules in RULES.items():
        for block in _english()["intents"][intent]["data"]:
            if rule := _rule_of(block, rules):
                templates[rule.tool] += _templates(block, rule, original, pool)
    for text, combination, fixed in _media_sentences():
        part = compile_expression(text, original, pool)
        templates["play_media"].append(Template(text, combination, part, fixed))
    return tools


def _rule_of(block: Mapping[str, Any], rules: list[Rule]) -> Rule | None:
    combination = block["metadata"]["slot_combination"]
    domains = block.get("requires_context", {}).get("domain", [])
    domain = [block["slots"]["domain"]] if "domain" in block.get("slots", {}) else domains
    for rule in rules:
        if re.search(rule.combination, combination) and (not rule.domain or rule.domain in domain):
            return rule
    return None


def _templates(
    block: Mapping[str, Any], rule: Rule, original: Mapping[str, str], pool: Mapping[str, Pool]
) -> list[Template]:
    names = {**pool, **{k: pool[rule.lists.get(k, v)] for k, v in LISTS.items()}}
    must = re.compile(rule.must) if rule.must else None
    found = []
    for text in block["sentences"]:
        if rule.skip and re.search(rule.skip, text):
            continue
        fixed = dict(rule.fixed)
        if way := re.search("volume_step_(up|down)", text):
            fixed["direction"] = way[1]
        for unit in re.findall(r"\{timer_half:(\w+)\}", text):
            fixed[unit] = 30
        if rule.tool.endswith("_list_item"):
            text = text.replace("{name}", "{name:list}")
        for pattern, replacement in REWRITES:
            text = pattern.sub(replacement, text)
        combination = ",".join([block["metadata"]["slot_combination"], *fixed])
        part = compile_expression(text, {**original, **rule.rules}, names)
        found.append(Template(text, combination, part, fixed, must))
    return found


def _media_sentences() -> list[tuple[str, str, dict[str, str]]]:
    """`HassMediaSearchAndPlay`, with titles that fit the class that is named."""
    sentences = []
    classes = {
        "artist": "artist", "album": "album", "song": "track", "playlist": "playlist", "podcast": "podcast",
        "movie": "movie", "show": "tv_show",
    }  # fmt: skip
    for block in _english()["intents"]["HassMediaSearchAndPlay"]["data"]:
        combination = block["metadata"]["slot_combination"]
        for sentence in block["sentences"]:
            text = sentence.replace("{name}", "{player:name}")
            for pool, value in classes.items():
                query = text.replace("{search_query}", f"{{{pool}:query}}")
                if "{media_class}" in query:
                    word = {"show": "[tv] show", "song": "(song|track)"}.get(pool, pool)
                    query = query.replace("{media_class}", word)
                    sentences.append((query, f"{combination},{value}", {"media_class": value}))
                elif pool in ("artist", "song", "movie", "playlist"):
                    sentences.append((query, combination, {}))
    return sentences
