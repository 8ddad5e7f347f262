"""Tools of the smart home, from the sentence templates of `home-assistant-intents` (data/en.json).

An intent there has blocks of sentences, each with the slots it fills. `_RULES` says which tool a block
belongs to. What names no tool, or whose answer cannot be told from the words, is left out: `{area} timer`
could be a room's or a timer's name, `{name} lights` a device or a room.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from needlex.data.embedded.pools import Closed, Pool
from needlex.data.embedded.source import read_tools
from needlex.data.embedded.templates import Template, compile_expression
from needlex.data.embedded.values import pools
from needlex.schema import Tool


@dataclass(frozen=True)
class _Rule:
    """Blocks of one intent that belong to one tool. Empty conditions match everything."""

    tool: str
    combination: str = ""
    """Regular expression for the block's slot combination."""
    domain: str = ""
    """Domain of the block: its fixed slot, or one of its context."""
    lists: Mapping[str, str] = field(default_factory=dict)
    """Pool of each list of the sentence, where it is not the default of `_LISTS`."""
    must: str = ""
    """What the drawn sentence (values as `{pool}`) has to match."""
    skip: str = ""
    """Templates left out."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)


_LIGHT = {"domain": "light"}
_FAN = {"domain": "fan"}
_GROUP = {"is": "are", "light": "lights"}
_SINGLE = {"is": "is"}
_PERSON = {"is": "is", "the": " "}
_LIT = {"set": "(set|turn|change|make)"}
_PERCENT = r"bright|\{name\}|lights"


def _switch(state: str) -> list[_Rule]:
    tool, cover, valve, lock = (
        ("turn_on", "open_cover", "open_valve", "lock") if state == "on"
        else ("turn_off", "close_cover", "close_valve", "unlock")
    )  # fmt: skip
    bare = r"^ ?\[<the>\] \{name\} ?$"
    return [
        _Rule(tool, r"^(area|floor)_domain|domain_(only|all)", "light", fixed=_LIGHT, skip="light (it|up)"),
        _Rule(tool, r"^(area|floor)_domain|domain_only", "fan", fixed=_FAN),
        _Rule(cover, "device_class", "cover"),
        # "{name} lights" and "the {area} {name}" cannot be taken apart when the words are new.
        _Rule(tool, r"^name_(only|floor|area)$", "switch", {"name": "device"},
              skip=rf"\{{area\}} \[<the>\] \{{name\}}|{bare}"),
        _Rule(cover, r"^name_", "cover", {"name": "cover"}),
        _Rule(valve, r"^name_", "valve", {"name": "valve"}, rules={"open": "open", "close": "(close|shut)"}),
        _Rule(lock, r"^name_", "lock", {"name": "lock"}),
        _Rule("activate_scene", "scene", "scene", {"name": "scene"}, must="scene\\b(?!})",
              skip=r"\{area\} \{name\}"),
        _Rule("press_button", "button", "", {"name": "button"}, must="button"),
        _Rule("run_script", "script", "", {"name": "script"}, must=r"script\b(?!})|^ ?run"),
    ]  # fmt: skip


def _timer(tool: str) -> list[_Rule]:
    return [_Rule(tool, skip=r"\{area\} timer")]


_RULES: dict[str, list[_Rule]] = {
    "HassTurnOn": _switch("on"),
    "HassTurnOff": _switch("off"),
    "HassSetPosition": [
        _Rule("set_cover_position", "device_class"),
        _Rule("set_cover_position", "name", lists={"name": "cover"}),
    ],
    "HassLightSet": [
        _Rule("set_light", "brightness", lists={"name": "lamp"}, must=_PERCENT, skip=r"\[<numeric_value_set>\] \(<all>"),
        _Rule("set_light", "color", lists={"name": "lamp"}, must=r"color\b(?!})|lights|\{name\}", rules=_LIT),
        _Rule("set_light", "temperature", lists={"name": "lamp"}, must="color temp"),
    ],
    "HassClimateSetTemperature": [_Rule("set_temperature", lists={"name": "climate"}, must=r"temp|degree|°|\{name\}")],
    "HassClimateGetTemperature": [_Rule("get_temperature", lists={"name": "climate"})],
    "HassClimateSetFanMode": [_Rule("set_fan_mode", lists={"name": "climate"})],
    "HassFanSetSpeed": [_Rule("set_fan_speed", lists={"name": "fan"}, must=r"speed|%|percent")],
    "HassGetState": [
        _Rule("get_state", "device_class", "cover", rules=_GROUP),
        _Rule("get_state", "domain_state", "light", fixed=_LIGHT, rules=_GROUP),
        _Rule("get_state", "domain_state", "fan", fixed=_FAN, rules=_GROUP),
        _Rule("get_state", "domain_state", "switch", fixed={"domain": "switch"}, rules=_GROUP),
        _Rule("get_state", "domain_state", "lock", fixed={"domain": "lock"}, rules=_GROUP, skip=r"\{(area|floor)\} <lockable>"),
        _Rule("list_present", "domain_state", "person", rules=_PERSON),
        _Rule("get_state", "name_only", lists={"name": "sensor"}, skip="how_is", must="state|value"),
        _Rule("get_state", "name_state$", "light", {"name": "device"}, rules=_SINGLE),
        _Rule("get_state", "name_state", "cover", {"name": "cover"}, rules=_SINGLE),
        _Rule("get_state", "name_state", "lock", {"name": "lock"}, rules=_SINGLE),
        _Rule("locate_person", "name_where", lists={"name": "person"}, rules=_PERSON),
        _Rule("check_presence", "name_zone", lists={"name": "person"}, rules=_PERSON),
    ],
    "HassGetCurrentDate": [_Rule("get_current_date")],
    "HassGetCurrentTime": [_Rule("get_current_time")],
    "HassStartTimer": [_Rule("delay_command", "command"), _Rule("start_timer")],
    "HassIncreaseTimer": _timer("increase_timer"),
    "HassDecreaseTimer": _timer("decrease_timer"),
    "HassCancelTimer": _timer("cancel_timer"),
    "HassCancelAllTimers": [_Rule("cancel_all_timers")],
    "HassPauseTimer": _timer("pause_timer"),
    "HassUnpauseTimer": _timer("resume_timer"),
    "HassTimerStatus": _timer("get_timer_status"),
    "HassShoppingListAddItem": [_Rule("add_shopping_item", must="shopping")],
    "HassShoppingListCompleteItem": [_Rule("remove_shopping_item", must="shopping")],
    "HassListAddItem": [_Rule("add_list_item", must="list\\b(?!})")],
    "HassListCompleteItem": [_Rule("complete_list_item", must="list\\b(?!})")],
    "HassListRemoveItem": [_Rule("remove_list_item", must="list\\b(?!})")],
    "HassMediaNext": [_Rule("next_track", lists={"name": "player"}, must="track|song|skip|item")],
    "HassMediaPrevious": [_Rule("previous_track", lists={"name": "player"}, must="track|song|item")],
    "HassMediaPause": [_Rule("pause_media", lists={"name": "player"}, must=r"music|show|media|track|song|movie|\{name")],
    "HassMediaUnpause": [_Rule("resume_media", lists={"name": "player"}, must=r"music|show|media|track|song|movie|\{name")],
    "HassMediaPlayerMute": [_Rule("mute", lists={"name": "player"})],
    "HassMediaPlayerUnmute": [_Rule("unmute", lists={"name": "player"})],
    "HassMediaSearchAndPlay": [],  # by `_media_templates`: the words have to fit the class
    "HassSetVolume": [_Rule("set_volume", lists={"name": "player"}, must="volume")],
    "HassSetVolumeRelative": [_Rule("change_volume", lists={"name": "player"})],
    "HassVacuumCleanArea": [_Rule("start_vacuum", lists={"name": "vacuum"})],
    "HassVacuumStart": [_Rule("start_vacuum", lists={"name": "vacuum"})],
    "HassVacuumReturnToBase": [_Rule("dock_vacuum", lists={"name": "vacuum"})],
    "HassLawnMowerStartMowing": [_Rule("start_mowing", lists={"name": "mower"})],
    "HassLawnMowerDock": [_Rule("dock_mower", lists={"name": "mower"})],
    "HassBroadcast": [_Rule("broadcast")],
}  # fmt: skip

# Wordings that the original accepts from a hurried speaker and nobody would write.
_OVERRIDES = {
    "turn": "(turn|switch)",
    "set": "(set|change|switch)",
    "numeric_value_set": "(set|change|adjust)",
    "in": "(in|in|in|inside)",
    "what_is": "(what's|what is|tell me)",
    "how_is": "(how's|how is)",
    "where_is": "(where's|where is)",
    "everywhere": "(everywhere|in the (entire|whole) (home|house|apartment|flat)|in (all the|every) (rooms|areas))",
    "here": "(here|in here|in this room)",
    "light": "(lights|lights|lights|lighting)",
    "lockable": "[<the>] (locks|doors|windows|gates|garage doors|shutters)",
    "all": "(all|all the|all my)",
    "are_any": "are (any|any of the|some of the)",
    "are_all": "are (all|all the|all my|all of the)",
    "close": "(close|shut|lower)",
    "open": "(open|open|raise)",
    "the": "(the|the|the|my|our)",
    "track": "(song|track)",
    "media": "(music|movie|show|song|tv show|track)",
}  # fmt: skip

_REWRITES = tuple((re.compile(pattern), replacement) for pattern, replacement in (
    (r"\{volume_step_(?:up|down):volume_step\}", "{percent:amount}"),
    (r"^(\[turn\] )?\{volume_step\}", "{volume_change:direction}"),
    (r"\{volume_step\}", "{volume_step:direction}"),
    (r"\{volume:volume_level\}", "{percent:level}"),
    (r"\{color_temperature(_names)?:temperature\}", r"{color_temperature\1:color_temperature}"),
    (r"\{timer_command:conversation_command\}", "{command}"),
    (r"\[a\] \{timer_half:\w+\} (hour|minute)\[s\]", r"a half \1s"),
    (r"\{timer_half:\w+\} (an|a) (hour|minute)\[s\]", r"half \1 \2"),
    (r"\( \|-\)(hour|minute|second)\[s\] timer", r"( |-)\1 timer"),
    (r"\( \|-\)(hour|minute|second)\[s\]", r" \1s"),
    (r"\[<in>\] \[<the>\] \{zone:state\}", "(at|in) the {zone}"),
    (r"\{floor\}( \[floor\])?", "{floor} floor"),
    (r"\[?<in>\]? \[<the>\] \{floor\}", "on [<the>] {floor}"),
    (r"<light> \{floor\} floor", "<light> on the {floor} floor"),
    (r"\[<in>\]", "<in>"),
    (r"\[in\] \[<the>\] \{area\}", "in [<the>] {area}"),
    (r"\[on(\|for)?\] \[<the>\] \{name\}", "on [<the>] {name}"),
    (r"\[a\|an\|the\|my\]", "(a|a|my)"),
    (r"\[<(turn|set|numeric_value_set)>\]", r"<\1>"),
    (r"\[(\(?)the\)?\] speed \[of( \[the\])?\]", "the speed of"),
    (r"\[of\]", "of"),
    (r"<temp> (\[<the>\] \{name\})", r"<temp> of \1"),
    (r"\(off\|out\)", "(off|off|off|out)"),
    (r"\[<all>\] \[<the>\]", "[(<all>|<the>)]"),
    (r"fan\[s\]", "fans"),
    (r"switch\[es\]", "switches"),
    (r"\(check\|complete(\|delete\|remove)?\) \(off;", "(check|cross|tick) (off;"),
    (r" \[on\]$", ""),
))  # fmt: skip

_LISTS = {
    "message": "message", "temperature": "temperature", "position": "percent", "fan_speed": "percent",
    "brightness": "percent", "color_temperature": "kelvin", "volume": "percent", "zone": "zone",
    "timer_seconds": "seconds", "timer_minutes": "minutes", "timer_hours": "hours", "timer_name": "timer_name",
    "shopping_list_item": "item", "todo_list_item": "entry", "area": "area",
    "floor": "floor", "name": "list", "command": "command",
}  # fmt: skip


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
    """The smart home's tools with domain and templates. Deterministic for one version of the intents package."""
    pool = {**pools(), **_closed_lists()}
    tools = read_tools("home.txt", pool)
    templates = {tool.name: found for tool, _, found in tools}
    original = {**_english()["expansion_rules"], **_OVERRIDES}
    for intent, rules in _RULES.items():
        for block in _english()["intents"][intent]["data"]:
            if rule := _rule_of(block, rules):
                templates[rule.tool] += _templates(block, rule, original, pool)
    for text, combination, fixed in _media_sentences():
        part = compile_expression(text, original, pool)
        templates["play_media"].append(Template(text, combination, part, fixed))
    return tools


def _rule_of(block: Mapping[str, Any], rules: list[_Rule]) -> _Rule | None:
    combination = block["metadata"]["slot_combination"]
    domains = block.get("requires_context", {}).get("domain", [])
    domain = [block["slots"]["domain"]] if "domain" in block.get("slots", {}) else domains
    for rule in rules:
        if re.search(rule.combination, combination) and (not rule.domain or rule.domain in domain):
            return rule
    return None


def _templates(
    block: Mapping[str, Any], rule: _Rule, original: Mapping[str, str], pool: Mapping[str, Pool]
) -> list[Template]:
    names = {**pool, **{k: pool[rule.lists.get(k, v)] for k, v in _LISTS.items()}}
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
        for pattern, replacement in _REWRITES:
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
