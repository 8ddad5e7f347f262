"""Which sentences of `home-assistant-intents` belong to which tool, and how their wording is mended.

What names no tool, or whose answer cannot be told from the words, is left out: `{area} timer` could be a
room's or a timer's name, `{name} lights` a device or a room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Rule:
    """Blocks of one intent that belong to one tool. Empty conditions match everything."""

    tool: str
    combination: str = ""
    """Regular expression for the block's slot combination."""
    domain: str = ""
    """Domain of the block: its fixed slot, or one of its context."""
    lists: Mapping[str, str] = field(default_factory=dict)
    """Pool of each list of the sentence, where it is not the default of `LISTS`."""
    must: str = ""
    """What the drawn sentence (values as `{pool}`) has to match."""
    skip: str = ""
    """Templates left out."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that every sentence of the block implies."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Expansion rules of its own."""


_LIGHT = {"domain": "light"}
_FAN = {"domain": "fan"}
_GROUP = {"is": "are", "light": "lights"}
_SINGLE = {"is": "is"}
_PERSON = {"is": "is", "the": " "}
_SOUND = {"media": "(music|movie|tv show|sound)"}
_LIT = {"set": "(set|turn|change|make)"}
_PERCENT = r"(?<!\{)bright|\{name\}|lights"
_DEGREES = r"(?<!\{)temp|degree|°|\{name\}"
_MEDIA = r"music|show|media|track|song|movie|\{name"
_PLAYER = {"name": "player"}
_LAMP = {"name": "lamp"}
_SCENE = r"^((?!scene).)*$|\{area\} \{name\}"


def _switch(state: str) -> list[Rule]:
    tool, cover, valve, lock = (
        ("turn_on", "open_cover", "open_valve", "lock") if state == "on"
        else ("turn_off", "close_cover", "close_valve", "unlock")
    )  # fmt: skip
    bare = r"^ ?\[<the>\] \{name\} ?$"
    return [
        Rule(tool, r"^(area|floor)_domain|domain_(only|all)", "light", fixed=_LIGHT, skip="light (it|up)"),
        Rule(tool, r"^(area|floor)_domain|domain_only", "fan", fixed=_FAN),
        Rule(cover, "device_class", "cover"),
        # "{name} lights" and "the {area} {name}" cannot be taken apart when the words are new.
        Rule(tool, r"^name_(only|floor|area)$", "switch", {"name": "device"},
             skip=rf"\{{area\}} \[<the>\] \{{name\}}|{bare}"),
        Rule(cover, r"^name_", "cover", {"name": "cover"}),
        Rule(valve, r"^name_", "valve", {"name": "valve"}, rules={"open": "open", "close": "(close|shut)"}),
        Rule(lock, r"^name_", "lock", {"name": "lock"}),
        Rule("activate_scene", "scene", "scene", {"name": "scene"}, skip=_SCENE, must="scene"),
        Rule("press_button", "button", "", {"name": "button"}, must="button"),
        Rule("run_script", "script", "", {"name": "script"}, must=r"script\b"),
    ]  # fmt: skip


def _timer(tool: str) -> list[Rule]:
    return [Rule(tool, skip=r"\{area\} timer")]


RULES: dict[str, list[Rule]] = {
    "HassTurnOn": _switch("on"),
    "HassTurnOff": _switch("off"),
    "HassSetPosition": [
        Rule("set_cover_position", "device_class"),
        Rule("set_cover_position", "name", lists={"name": "cover"}),
    ],
    "HassLightSet": [
        Rule("set_light", "brightness", lists=_LAMP, must=_PERCENT,
             skip=r"\[<numeric_value_set>\] \(<all>"),
        Rule("set_light", "color", lists=_LAMP, must=r"color\b(?!})|lights|\{name\}", rules=_LIT),
        Rule("set_light", "temperature", lists=_LAMP, must="color temp"),
    ],
    "HassClimateSetTemperature": [Rule("set_temperature", lists={"name": "climate"}, must=_DEGREES)],
    "HassClimateGetTemperature": [Rule("get_temperature", lists={"name": "climate"})],
    "HassClimateSetFanMode": [Rule("set_fan_mode", lists={"name": "climate"})],
    "HassFanSetSpeed": [Rule("set_fan_speed", lists={"name": "fan"}, must=r"(?<!_)speed|%|percent")],
    "HassGetState": [
        Rule("get_state", "device_class", "cover", rules=_GROUP),
        Rule("get_state", "domain_state", "light", fixed=_LIGHT, rules=_GROUP),
        Rule("get_state", "domain_state", "fan", fixed=_FAN, rules=_GROUP),
        Rule("get_state", "domain_state", "switch", fixed={"domain": "switch"}, rules=_GROUP),
        Rule("get_state", "domain_state", "lock", fixed={"domain": "lock"}, rules=_GROUP,
             skip=r"\{(area|floor)\} <lockable>"),
        Rule("list_present", "domain_state", "person", rules=_PERSON),
        Rule("get_state", "name_only", lists={"name": "sensor"}, skip="how_is", must="state|value"),
        Rule("get_state", "name_state$", "light", {"name": "device"}, rules=_SINGLE),
        Rule("get_state", "name_state", "cover", {"name": "cover"}, rules=_SINGLE),
        Rule("get_state", "name_state", "lock", {"name": "lock"}, rules=_SINGLE),
        Rule("locate_person", "name_where", lists={"name": "person"}, rules=_PERSON),
        Rule("check_presence", "name_zone", lists={"name": "person"}, rules=_PERSON),
    ],
    "HassGetCurrentDate": [Rule("get_current_date")],
    "HassGetCurrentTime": [Rule("get_current_time")],
    "HassStartTimer": [Rule("delay_command", "command"), Rule("start_timer")],
    "HassIncreaseTimer": _timer("increase_timer"),
    "HassDecreaseTimer": _timer("decrease_timer"),
    "HassCancelTimer": _timer("cancel_timer"),
    "HassCancelAllTimers": [Rule("cancel_all_timers")],
    "HassPauseTimer": _timer("pause_timer"),
    "HassUnpauseTimer": _timer("resume_timer"),
    "HassTimerStatus": _timer("get_timer_status"),
    "HassShoppingListAddItem": [Rule("add_shopping_item", must=r"(?<![{_])shopping")],
    "HassShoppingListCompleteItem": [Rule("remove_shopping_item", must=r"(?<![{_])shopping")],
    "HassListAddItem": [Rule("add_list_item", must="list\\b(?!})")],
    "HassListCompleteItem": [Rule("complete_list_item", must="list\\b(?!})")],
    "HassListRemoveItem": [Rule("remove_list_item", must="list\\b(?!})")],
    "HassMediaNext": [Rule("next_track", lists=_PLAYER, must="track|song|skip|item")],
    "HassMediaPrevious": [Rule("previous_track", lists=_PLAYER, must="track|song|item")],
    "HassMediaPause": [Rule("pause_media", lists=_PLAYER, must=_MEDIA)],
    "HassMediaUnpause": [Rule("resume_media", lists=_PLAYER, must=_MEDIA)],
    "HassMediaPlayerMute": [Rule("mute", lists=_PLAYER, rules=_SOUND)],
    "HassMediaPlayerUnmute": [Rule("unmute", lists=_PLAYER, rules=_SOUND)],
    "HassMediaSearchAndPlay": [],  # see `home`: the words have to fit the class
    "HassSetVolume": [Rule("set_volume", lists=_PLAYER, must="volume")],
    "HassSetVolumeRelative": [Rule("change_volume", lists=_PLAYER)],
    "HassVacuumCleanArea": [Rule("start_vacuum", lists={"name": "vacuum"})],
    "HassVacuumStart": [Rule("start_vacuum", lists={"name": "vacuum"})],
    "HassVacuumReturnToBase": [Rule("dock_vacuum", lists={"name": "vacuum"})],
    "HassLawnMowerStartMowing": [Rule("start_mowing", lists={"name": "mower"})],
    "HassLawnMowerDock": [Rule("dock_mower", lists={"name": "mower"})],
    "HassBroadcast": [Rule("broadcast")],
}  # fmt: skip

# Wordings that the original accepts from a hurried speaker and nobody would write.
OVERRIDES = {
    "turn": "(turn|switch)",
    "set": "(set|change|switch)",
    "numeric_value_set": "(set|change|adjust)",
    "in": "(in|in|in|inside)",
    "what_is": "(what's|what is|tell me)",
    "how_is": "(how's|how is)",
    "where_is": "(where's|where is)",
    "everywhere": "(everywhere|in the (entire|whole) (home|house|apartment|flat)|in all the rooms)",
    "here": "(here|in here|in this room)",
    "light": "(lights|lights|lights|lighting)",
    "lockable": "[<the>] (locks|doors|windows|gates|garage doors|shutters)",
    "all": "(all|all the|all my)",
    "are_any": "are (any|any of the|some of the)",
    "are_all": "are (all|all the|all my|all of the)",
    "close": "(close|shut|lower)",
    "open": "(open|open|raise)",
    "the": "(the|the|the|my|our)",
    "which": "(which|what|which of <the>)",
    "track": "(song|track)",
    "media": "(music|movie|show|song|tv show|track)",
}  # fmt: skip

# Applied in this order to every sentence: slots get our argument names, slack wording gets firm.
REWRITES = tuple((re.compile(pattern), replacement) for pattern, replacement in (
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
    (r"\[<in>\] \[<the>\] \{zone:state\}", "at the {zone}"),
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
    (r"\(in\|on\) (\[<the>\] \{floor\})", r"on \1"),
    (r"\[to\] \{(fan_speed|brightness):", r"to {\1:"),
    (r"\[to\] \{brightness\}", "to {brightness}"),
    (r"\[\[?<the>\]? <media>\]", "[<the> <media>]"),
    (r"\[that\] \{message\}", "(that {statement:message}|{message})"),
    (r"fan\[s\]", "fans"),
    (r"switch\[es\]", "switches"),
    (r"\(check\|complete(\|delete\|remove)?\) \(off;", "(check|cross|tick) (off;"),
    (r" \[on\]$", ""),
    (r"\(activate\|run\|start\|<turn>\)", "(activate|run|start)"),
))  # fmt: skip

LISTS = {
    "message": "message", "temperature": "temperature", "position": "percent", "fan_speed": "percent",
    "brightness": "percent", "color_temperature": "kelvin", "volume": "percent", "zone": "zone",
    "timer_seconds": "seconds", "timer_minutes": "minutes", "timer_hours": "hours",
    "timer_name": "timer_name", "shopping_list_item": "item", "todo_list_item": "entry", "area": "area",
    "floor": "floor", "name": "list", "command": "command",
}  # fmt: skip
