"""Everything that can be asked for: all tools with their templates, small talk, and which tools get in each
other's way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from needlex.data.embedded.home import home_tools
from needlex.data.embedded.source import ToolSource, divide, read_templates, read_tools
from needlex.data.embedded.templates import Template
from needlex.data.embedded.values import pools, sections

RIVALS: tuple[tuple[str, str], ...] = (
    ("turn_on", "toggle_setting"),
    ("turn_off", "toggle_setting"),
    ("open_cover", "open_valve"),
    ("close_cover", "close_valve"),
    ("add_shopping_item", "add_list_item"),
    ("remove_shopping_item", "remove_list_item"),
    ("remove_shopping_item", "complete_list_item"),
    ("start_vacuum", "start_mowing"),
    ("dock_vacuum", "dock_mower"),
    ("get_temperature", "get_weather"),
    ("order_food", "order_pizza"),
)
"""Pairs never offered together: for some request either would do."""

_SEARCHABLE = (
    "define_word", "get_stock_price", "get_weather", "get_forecast", "get_air_quality", "get_sun_times",
    "get_news", "get_traffic", "find_recipe", "find_nearby", "convert_units", "convert_currency",
    "calculate", "calculate_tip", "translate_text", "track_flight", "track_package", "open_website",
    "identify_song", "get_current_date", "get_current_time", "tell_joke", "get_directions",
    "search_notes", "play_media",
)  # fmt: skip

STAND_INS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_SEARCHABLE, ("search_web",)),
    "set_cover_position": ("open_cover", "close_cover"),
    "activate_scene": ("turn_on", "run_script"),
    "run_script": ("turn_on", "activate_scene"),
    "dial_number": ("make_call",),
    "order_coffee": ("order_food",),
    "get_forecast": ("get_weather", "search_web"),
    "get_weather": ("get_forecast", "get_temperature", "search_web"),
    "set_volume": ("change_volume",),
    "change_volume": ("set_volume",),
    "play_media": ("play_radio", "search_web"),
    "play_radio": ("play_media",),
    "resume_media": ("play_media",),
    "create_reminder": ("create_note", "create_event", "add_list_item", "delay_command"),
    "create_event": ("create_reminder", "create_note"),
    "create_note": ("create_reminder", "add_list_item"),
    "add_list_item": ("create_note", "create_reminder"),
    "set_alarm": ("create_reminder",),
    "get_temperature": ("get_state", "get_weather"),
    "locate_person": ("check_presence",),
    "check_presence": ("locate_person", "list_present"),
    "list_present": ("check_presence",),
    "open_website": ("search_web", "open_app"),
    "remove_list_item": ("complete_list_item",),
    "complete_list_item": ("remove_list_item",),
    "cancel_all_timers": ("cancel_timer",),
    "snooze_alarm": ("set_alarm",),
    "get_directions": ("get_traffic", "search_web"),
    "send_message": ("send_email",),
    "video_call": ("make_call",),
}
"""Tools that could pass for the one that a row without a call leaves out: they are not offered there."""

_DELAYED = ("home", "media", "climate", "cleaning")
CHAT_STAND_INS = (
    "search_web", "tell_joke", "define_word", "log_meal", "log_workout", "create_note", "play_media",
    "get_weather", "identify_song", "find_recipe", "translate_text", "cancel_timer",
)  # fmt: skip
"""Tools that could answer small talk after all."""

SHARED_SLOTS: dict[str, str] = {
    "turn_on": "name", "turn_off": "name", "lock": "name", "unlock": "name", "get_temperature": "area",
    "add_shopping_item": "item", "remove_shopping_item": "item", "add_list_item": "item",
    "remove_list_item": "item", "complete_list_item": "item", "send_message": "recipient",
    "send_email": "recipient", "get_stock_price": "company", "define_word": "word",
    "get_weather": "location", "get_air_quality": "location", "get_forecast": "location",
    "order_food": "dish", "open_app": "app", "translate_text": "target_language", "set_alarm": "time",
    "delete_note": "title", "find_nearby": "place_type", "find_recipe": "dish", "cancel_alarm": "time",
    "set_light": "area", "open_cover": "area", "close_cover": "area", "set_temperature": "area",
    "track_package": "tracking_number", "track_flight": "flight_number", "start_vacuum": "area",
    "list_events": "date", "check_presence": "name",
    "search_web": "query", "find_device": "item", "open_website": "url", "get_traffic": "destination",
    "book_hotel": "city", "delete_event": "title",
}  # fmt: skip
"""Slots whose values can be named together, `in Paris and London`, for a call each."""


@dataclass(frozen=True)
class Catalogue:
    """All sources by the tool's name; names in the order of the files."""

    sources: Mapping[str, ToolSource]
    by_domain: Mapping[str, tuple[str, ...]]
    chat: tuple[Template, ...]
    """Small talk that training uses."""
    unseen_chat: tuple[Template, ...]
    rivals: Mapping[str, frozenset[str]]
    """Tools never offered together with one."""
    stand_ins: Mapping[str, frozenset[str]]
    """Tools not offered where one is missing (its rivals among them)."""

    def only(self, domains: Sequence[str]) -> Catalogue:
        """The tools of some domains; all of them if none is named.

        **Raises:** `ValueError` for a domain that there is not.
        """
        unknown = sorted(set(domains) - set(self.by_domain))
        if unknown:
            raise ValueError(f"embedded.domains: unknown {unknown}; there are {', '.join(self.by_domain)}")
        if not domains:
            return self
        by_domain = {d: names for d, names in self.by_domain.items() if d in domains}
        names = {n for found in by_domain.values() for n in found}
        return replace(
            self, by_domain=by_domain, sources={n: s for n, s in self.sources.items() if n in names}
        )


@cache
def catalogue() -> Catalogue:
    """The catalogue, read once.

    **Raises:** `ValueError` for two tools of one name, or a table above that names an unknown tool.
    """
    tools = home_tools() + read_tools("tools.txt", pools())
    sources: dict[str, ToolSource] = {}
    for tool, domain, templates in tools:
        if tool.name in sources:
            raise ValueError(f"two tools are called {tool.name!r}")
        sources[tool.name] = ToolSource(tool, domain, *divide(templates))
    by_domain: dict[str, tuple[str, ...]] = {}
    for name, source in sources.items():
        by_domain[source.domain] = (*by_domain.get(source.domain, ()), name)
    rivals = {
        name: frozenset(b for pair in RIVALS for b in pair if name in pair and b != name) for name in sources
    }
    stand_ins = {name: rivals[name] | frozenset(STAND_INS.get(name, ())) for name in sources}
    stand_ins["delay_command"] |= frozenset(n for domain in _DELAYED for n in by_domain[domain])
    named = {n for pair in RIVALS for n in pair} | {*STAND_INS, *CHAT_STAND_INS, *SHARED_SLOTS}
    if unknown := (named | {n for ns in STAND_INS.values() for n in ns}) - sources.keys():
        raise ValueError(f"the tables of the catalogue name unknown tools: {sorted(unknown)}")
    trained, unseen = divide(read_templates(sections("chat.txt")["chat"].splitlines(), pools()))
    return Catalogue(
        sources,
        by_domain,
        tuple(t for group in trained.values() for t in group),
        tuple(t for group in unseen.values() for t in group),
        rivals,
        stand_ins,
    )
