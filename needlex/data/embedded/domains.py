"""The project's own tools and what people say to use them, in the template syntax of `templates`.

`_EXTRA` adds wordings to tools of `home`. A group of sentences shares the arguments its wording implies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from needlex.data.embedded.source import ToolSource, make_source, parse_tool
from needlex.data.embedded.templates import Template, compile_expression, slots_of
from needlex.data.embedded.values import CURRENCIES, UNITS, Closed, Pool, pools

_UNIT = "|".join(UNITS)
_CURRENCY = "|".join(sorted(set(CURRENCIES.values())))
_SETTING = "wifi|bluetooth|airplane_mode|do_not_disturb|dark_mode|location|mobile_data|hotspot"

_RULES = {
    "new": "(set|set up|create|make)",
    "show": "(show|show me|list|give me|read me|read out)",
    "find": "(find|find me|look for|search for|locate)",
    "whats": "(what's|what is)",
    "my": "[my|the]",
    "tell": "(tell me|let me know|give me)",
    "want": "(I want to|I'd like to|I need to)",
    "forecast": "(weather|weather forecast|forecast)",
    "get_order": "(order|order me|get me|get)",
}

CLOSED: dict[str, Pool] = {
    "mode": Closed({
        "by car": "driving", "driving": "driving", "on foot": "walking", "walking": "walking",
        "by bike": "cycling", "cycling": "cycling", "by bus": "transit", "by public transport": "transit",
    }),
    "facing": Closed({"front": "front", "back": "back", "rear": "back", "selfie": "front"}),
    "urgent": Closed({"urgent": True, "high priority": True}),
    "repeat": Closed({
        "every day": "daily", "daily": "daily", "on weekdays": "weekdays", "every weekday": "weekdays",
        "on weekends": "weekends", "every weekend": "weekends",
    }),
    "size": Closed({"small": "small", "medium": "medium", "large": "large", "extra large": "extra_large"}),
    "drink": Closed({
        "latte": "latte", "cappuccino": "cappuccino", "espresso": "espresso", "flat white": "flat_white",
        "americano": "americano", "mocha": "mocha", "hot chocolate": "hot_chocolate",
    }),
    "milk": Closed({"oat milk": "oat", "soy milk": "soy", "almond milk": "almond", "whole milk": "whole"}),
    "cabin": Closed({"economy": "economy", "business": "business", "first": "first"}),
    "account": Closed({"checking": "checking", "savings": "savings", "credit card": "credit_card"}),
    "setting": Closed({
        "wifi": "wifi", "wi-fi": "wifi", "bluetooth": "bluetooth", "airplane mode": "airplane_mode",
        "flight mode": "airplane_mode", "do not disturb": "do_not_disturb", "dark mode": "dark_mode",
        "location services": "location", "mobile data": "mobile_data", "the hotspot": "hotspot",
    }),
    "category": Closed({
        "sports": "sports", "politics": "politics", "technology": "technology", "tech": "technology",
        "business": "business", "science": "science", "health": "health", "entertainment": "entertainment",
    }),
    "shuffled": Closed({"shuffled": True, "on shuffle": True, "in random order": True}),
    "quality": Closed({"hd": "hd", "full hd": "full_hd", "4k": "4k"}),
    "diet": Closed({"vegan": "vegan", "vegetarian": "vegetarian", "gluten free": "gluten_free", "keto": "keto"}),
    "vehicle": Closed({"taxi": "standard", "cab": "standard", "van": "van", "wheelchair taxi": "accessible"}),
    "meal": Closed({"breakfast": "breakfast", "lunch": "lunch", "dinner": "dinner", "a snack": "snack"}),
}  # fmt: skip

_Sentences = str | tuple[Mapping[str, Any], str]

# name: (domain, description, parameters, rival groups, groups of sentences, one a line)
TOOLS: dict[str, tuple[str, str, str, tuple[str, ...], Sequence[_Sentences]]] = {
    "send_message": ("messages", "Send a text message to a person.", "recipient*, message*", ("message",), ["""
        (send|write) {person:recipient} a (message|text) saying {message}
        (send|write) a (message|text) to {person:recipient} saying [that] {message}
        text {person:recipient} [that] {message}
        text {person:recipient}: {message}
        (message|text) {person:recipient} and say {message}
        (tell|let) {person:recipient} know [that] {message}
        send {person:recipient} the message {message}
        shoot {person:recipient} a text: {message}
        <want> text {person:recipient} {message}
        new message to {person:recipient}: {message}
        send a text to {person:recipient}, {message}
        drop {person:recipient} a message that says {message}
        write to {person:recipient}: {message}
        """]),
    "read_messages": ("messages", "Read out received text messages.", "sender, unread_only:bool", (), ["""
        (read|show) [me] <my> (messages|texts)
        (read|show) [me] <my> (messages|texts) from {person:sender}
        did {person:sender} (text|message) me
        (what did|what has) {person:sender} (write|text) me
        do I have [any] (messages|texts) from {person:sender}
        <whats> in my inbox of messages
        check my (messages|texts)
        check for (messages|texts) from {person:sender}
        open [the] (messages|conversation) from {person:sender}
        """, ({"unread_only": True}, """
        (read|show) [me] <my> (unread|new) (messages|texts)
        (read|show) [me] <my> (unread|new) (messages|texts) from {person:sender}
        do I have [any] (unread|new) (messages|texts)
        any new texts
        any new (messages|texts) from {person:sender}
        check my unread (messages|texts)
        """)]),
    "make_call": ("calls", "Call a person by phone.", "contact*, speaker:bool", ("call",), ["""
        call {person:contact}
        [make a] phone call to {person:contact}
        (give {person:contact} a call|ring {person:contact})
        phone {person:contact}
        dial {person:contact}
        <want> (call|talk to) {person:contact}
        get {person:contact} on the phone
        start a call with {person:contact}
        place a call to {person:contact}
        ring up {person:contact}
        (can|could) you call {person:contact} for me
        """, ({"speaker": True}, """
        call {person:contact} on speaker[phone]
        phone {person:contact} on speaker
        put a call to {person:contact} on speaker
        dial {person:contact} using the speakerphone
        """)]),
    "video_call": ("calls", "Start a video call with one or more people.", "contacts*:[str]", ("call",), ["""
        [start a] video call with {people:contacts}
        video call {people:contacts}
        (start|set up) a video chat with {people:contacts}
        facetime {people:contacts}
        get {people:contacts} on a video call
        video chat with {people:contacts}
        <want> video call {people:contacts}
        begin a video conference with {people:contacts}
        let's have a video call with {people:contacts}
        open a video call to {people:contacts}
        connect me to {people:contacts} by video
        """]),
    "dial_number": ("calls", "Dial a phone number.", "number*", (), ["""
        (dial|call) {phone:number}
        (call|phone|ring) the number {phone:number}
        make a call to {phone:number}
        <want> call {phone:number}
        ring {phone:number}
        dial the number {phone:number}
        place a call to {phone:number}
        phone {phone:number}
        connect me to {phone:number}
        start a call to {phone:number}
        """]),
    "send_email": ("email", "Send an email.", "recipient*, subject, body, urgent:bool", (), ["""
        (send|write) an email to {person:recipient}
        email {person:recipient}
        email {person:recipient} about {subject}
        (send|write) an email to {person:recipient} about {subject}
        (send|write) {person:recipient} an email with the subject {subject}
        send an email to {email:recipient} about {subject}
        email {email:recipient} with subject {subject} saying {message:body}
        (send|write) an email to {person:recipient} saying {message:body}
        email {person:recipient} that {message:body}
        (compose|draft) an email to {email:recipient}
        send an {urgent:urgent} email to {person:recipient} about {subject}
        write an {urgent:urgent} email to {email:recipient} with the subject {subject}
        mail {person:recipient} about {subject}
        new email to {email:recipient}, subject {subject}
        send {person:recipient} an email about {subject} that says {message:body}
        """]),
    "search_emails": ("email", "Search the mailbox.", "sender, subject, unread_only:bool", (), ["""
        <find> [the] emails from {person:sender}
        <find> [the] emails about {subject}
        <find> [the] email from {person:sender} about {subject}
        (show|show me) [all] emails from {person:sender}
        (show|show me) [all] mails about {subject}
        did {person:sender} (email|mail) me
        did {person:sender} (email|mail) me about {subject}
        search my (inbox|mailbox) for {subject}
        search my (inbox|mailbox) for mails from {person:sender}
        do I have [any] emails from {email:sender}
        """, ({"unread_only": True}, """
        (show|show me) [my] (unread|new) emails
        (show|show me) [my] (unread|new) emails from {person:sender}
        do I have [any] (unread|new) emails
        any new mail from {person:sender}
        <find> unread emails about {subject}
        """)]),
    "create_event": ("calendar", "Add an event to the calendar.",
                     "title*, date*, time, duration_minutes:int, attendees:[str]", ("schedule",), ["""
        (schedule|add|put) [a] {event:title} {on_date:date}
        (schedule|plan) [a] {event:title} {on_date:date} {at_time:time}
        (schedule|plan|book) [a] {event:title} for {date}
        add [a] {event:title} to my calendar {on_date:date}
        add [a] {event:title} to my calendar for {date} {at_time:time}
        put [a] {event:title} (on|in) my calendar {on_date:date} {at_time:time}
        create [an] event called {event:title} {on_date:date}
        create a calendar event for {event:title} {on_date:date} {at_time:time}
        set up [a] {event:title} with {people:attendees} {on_date:date}
        schedule [a] {event:title} with {people:attendees} {on_date:date} {at_time:time}
        new event: {event:title}, {date}, {time}
        block {duration:duration_minutes} minutes for {event:title} {on_date:date}
        schedule a {duration:duration_minutes} minute {event:title} {on_date:date} {at_time:time}
        I have [a] {event:title} {on_date:date} {at_time:time}, (add it|put it in my calendar)
        """]),
    "list_events": ("calendar", "List the events of a day.", "date*", (), ["""
        <whats> on my (calendar|schedule|agenda) {on_date:date}
        <whats> on my (calendar|agenda) for {date}
        what do I have (planned|scheduled) {on_date:date}
        what events do I have {on_date:date}
        <show> my (events|appointments) for {date}
        do I have (anything|something) planned {on_date:date}
        do I have [any] (meetings|appointments) {on_date:date}
        am I (busy|free) {on_date:date}
        <whats> my schedule (like|looking like) {on_date:date}
        check my calendar for {date}
        <tell> my agenda for {date}
        what am I doing {on_date:date}
        """]),
    "delete_event": ("calendar", "Delete an event from the calendar.", "title*, date", (), ["""
        (cancel|delete|remove) <my> {event:title}
        (cancel|delete|remove) <my> {event:title} {on_date:date}
        (delete|remove) <my> {event:title} from my calendar
        (delete|remove) <my> {event:title} {on_date:date} from my calendar
        take <my> {event:title} off my calendar
        call off <my> {event:title} {on_date:date}
        clear <my> {event:title} from my (schedule|agenda)
        I can't make it to <my> {event:title}, (cancel|delete) it
        drop <my> {event:title} {on_date:date}
        erase [the] event {event:title}
        """]),
    "move_event": ("calendar", "Move an event to another date or time.", "title*, new_date, new_time", (), ["""
        (move|reschedule|shift) <my> {event:title} to {date:new_date}
        (move|reschedule|shift) <my> {event:title} to {time:new_time}
        (move|reschedule|shift) <my> {event:title} to {date:new_date} {at_time:new_time}
        push <my> {event:title} (back|out) to {date:new_date}
        postpone <my> {event:title} (to|until) {date:new_date}
        change <my> {event:title} to {date:new_date} {at_time:new_time}
        change the time of <my> {event:title} to {time:new_time}
        change the date of <my> {event:title} to {date:new_date}
        bring <my> {event:title} forward to {time:new_time}
        let's have <my> {event:title} {on_date:new_date} instead
        """]),
    "set_alarm": ("alarms", "Set an alarm clock.", "time*, label, repeat:daily|weekdays|weekends", (), ["""
        (set|create) an alarm for {time}
        set [an|my] alarm {at_time:time}
        wake me [up] {at_time:time}
        wake me [up] {at_time:time} {repeat}
        alarm for {time}
        I need to (wake|get) up {at_time:time}
        (set|create) an alarm for {time} {repeat}
        set an alarm called {timer_name:label} for {time}
        set an alarm {at_time:time} (labeled|named) {timer_name:label}
        make sure I'm up {at_time:time}
        get me up {at_time:time} {repeat}
        set my alarm clock (to|for) {time}
        new alarm {at_time:time} {repeat}
        """]),
    "cancel_alarm": ("alarms", "Cancel an alarm.", "time", (), ["""
        (cancel|delete|remove) my alarm
        (cancel|delete|remove|turn off) [the|my] {time} alarm
        (cancel|delete|remove|turn off) [the|my] alarm for {time}
        I don't need the {time} alarm [anymore]
        (switch|turn) off my alarm {at_time:time}
        don't wake me [up] {at_time:time}
        no alarm {at_time:time}, please
        clear the alarm for {time}
        get rid of the {time} alarm
        disable [the|my] {time} alarm
        disable my alarm
        """]),
    "snooze_alarm": ("alarms", "Snooze the ringing alarm.", "minutes:int", (), ["""
        snooze
        snooze [the|my] alarm
        snooze for {minutes} minutes
        snooze [the|my] alarm for {minutes} minutes
        give me {minutes} more minutes
        let me sleep {minutes} more minutes
        {minutes} more minutes of sleep, please
        wake me again in {minutes} minutes
        hit snooze
        hit snooze for {minutes} minutes
        remind me of the alarm again in {minutes} minutes
        """]),
    "create_reminder": ("reminders", "Remind the user of something.", "task*, date, time", (), ["""
        remind me to {task}
        remind me to {task} {at_time:time}
        remind me to {task} {on_date:date}
        remind me to {task} {on_date:date} {at_time:time}
        remind me {at_time:time} to {task}
        remind me {on_date:date} to {task}
        remind me {on_date:date} {at_time:time} to {task}
        (set|create) a reminder to {task}
        (set|create) a reminder to {task} {at_time:time}
        set a reminder for {time} to {task}
        don't let me forget to {task}
        don't let me forget to {task} {on_date:date}
        I need a reminder to {task} {at_time:time}
        give me a reminder {on_date:date} to {task}
        make sure I remember to {task}
        """]),
    "list_reminders": ("reminders", "List the reminders, of a day or all.", "date", (), ["""
        <show> my reminders
        <show> my reminders for {date}
        what reminders do I have
        what reminders do I have {on_date:date}
        what did I want to be reminded of {on_date:date}
        do I have [any] reminders
        do I have [any] reminders {on_date:date}
        read [out] my reminders
        check my reminders for {date}
        which reminders are set
        which reminders are set for {date}
        """]),
    "create_note": ("notes", "Write a note.", "text*, title", ("note",), ["""
        (make|take|write) a note: {note:text}
        (make|take|write) a note that {note:text}
        note [down] that {note:text}
        write down that {note:text}
        jot down that {note:text}
        (make|create) a note called {title} saying {note:text}
        new note: {note:text}
        new note titled {title}: {note:text}
        add a note that {note:text}
        save a note saying {note:text}
        remember that {note:text}
        keep in mind that {note:text}
        """]),
    "search_notes": ("notes", "Find notes by a search text.", "query*", (), ["""
        <find> my note about {title:query}
        <find> notes about {title:query}
        search my notes for {title:query}
        show [me] my notes (on|about) {title:query}
        what did I write about {title:query}
        do I have [any] notes (on|about) {title:query}
        look up {title:query} in my notes
        where is my note about {title:query}
        bring up my notes on {title:query}
        search for {title:query} in the notes
        """]),
    "delete_note": ("notes", "Delete a note.", "title*", (), ["""
        (delete|remove|erase) [the|my] note (called|titled) {title}
        (delete|remove|erase) my {title} note
        (delete|remove|erase) the note about {title}
        throw away my note about {title}
        get rid of the note (called|about) {title}
        trash the {title} note
        discard my note about {title}
        I don't need the {title} note anymore
        scrap the note titled {title}
        bin my {title} note
        """]),
    "get_directions": ("navigation", "Get directions to a place.",
                       "destination*, origin, mode:driving|walking|cycling|transit", ("route",), ["""
        (navigate|take me|guide me) to {place:destination}
        (get|give me|show me) directions to {place:destination}
        (get|give me|show me) directions to {place:destination} {mode}
        directions from {place:origin} to {place:destination}
        (get|give me|show me) directions from {place:origin} to {place:destination} {mode}
        how do I get to {place:destination}
        how do I get to {place:destination} {mode}
        how do I get from {place:origin} to {place:destination}
        <whats> the (best|fastest) (way|route) to {place:destination}
        <whats> the (best|fastest) route from {place:origin} to {place:destination} {mode}
        start navigation to {place:destination}
        show me the way to {place:destination} {mode}
        route to {place:destination} {mode}
        """]),
    "find_nearby": ("navigation", "Find places of a kind close by.", "place_type*, radius_km:num, open_now:bool", (), ["""
        <find> a {place_type} near(by| me)
        where is the (nearest|closest) {place_type}
        is there a {place_type} (nearby|around here|close by)
        (show|show me) the (nearest|closest) {place_type}
        <find> a {place_type} within {radius:radius_km} (kilometers|km)
        any {place_type} within {radius:radius_km} (kilometers|km)
        I'm looking for a {place_type} (nearby|around here)
        I need a {place_type} (nearby|close by)
        how far is the nearest {place_type}
        <whats> the closest {place_type}
        """, ({"open_now": True}, """
        <find> an open {place_type} nearby
        which {place_type} is open (now|right now) around here
        is there a {place_type} open now within {radius:radius_km} (kilometers|km)
        <find> a {place_type} that's open now
        """)]),
    "get_traffic": ("navigation", "Get the traffic on the way to a place.", "destination*, time", (), ["""
        how is [the] traffic to {place:destination}
        <whats> [the] traffic like (to|on the way to) {place:destination}
        is there [a lot of] traffic (to|on the way to) {place:destination}
        check [the] traffic to {place:destination}
        are there [any] traffic jams on the way to {place:destination}
        <tell> about [the] traffic to {place:destination}
        traffic report for {place:destination}
        how bad is [the] traffic to {place:destination} {at_time:time}
        what will [the] traffic to {place:destination} be like {at_time:time}
        any delays on the road to {place:destination}
        """]),
    "play_radio": ("music", "Play a radio station of a genre.", "genre*:jazz|rock|pop|classical|news|hip_hop|country", ("play",), ["""
        play a {genre} [radio] station
        play some {genre} radio
        (put|turn) on {genre} radio
        tune in to a {genre} station
        switch to a {genre} station
        I want to hear {genre} radio
        start {genre} radio
        listen to {genre} radio
        find a {genre} radio station
        radio with {genre}, please
        put a {genre} station on
        """]),
    "create_playlist": ("music", "Create a playlist.", "name*, songs:[str], shuffle:bool", (), ["""
        (create|make|start) a [new] playlist (called|named) {playlist:name}
        (create|make) a playlist (called|named) {playlist:name} with {songs}
        new playlist {playlist:name}
        new playlist {playlist:name} with {songs}
        put {songs} in a new playlist called {playlist:name}
        make me a playlist called {playlist:name}
        build a playlist named {playlist:name} from {songs}
        I want a [new] playlist (called|named) {playlist:name}
        set up a playlist called {playlist:name}
        create the playlist {playlist:name} {shuffled:shuffle}
        make a playlist named {playlist:name} {shuffled:shuffle}
        """]),
    "identify_song": ("music", "Recognise the song that is playing.", "", (), ["""
        what song is (this|that|playing)
        <whats> (this song|the name of this song)
        <whats> playing [right now]
        identify this (song|track)
        who sings this [song]
        (name|recognize) this (song|tune|track)
        which song is this
        <tell> what song this is
        what (track|tune) is playing [right now]
        who is this song by
        what are we listening to
        """]),
    "get_weather": ("weather", "Get the weather.", "location, date", ("weather",), ["""
        (what's|what is|how is|how's) the weather [like]
        what's the weather like in {city:location}
        (what's|how is) the weather in {city:location} {date}
        (what's|how is) the weather in {city:location}
        what will the weather be [like] {on_date:date}
        what will the weather be like in {city:location} {on_date:date}
        <tell> the weather for {date}
        weather in {city:location}
        weather in {city:location} {on_date:date}
        is it going to rain {on_date:date}
        will it rain in {city:location} {on_date:date}
        is it (sunny|cold|warm|raining|snowing) in {city:location}
        do I need an umbrella {on_date:date}
        how (hot|cold|warm) will it be in {city:location} {on_date:date}
        will it (snow|be sunny|be windy) {on_date:date}
        """]),
    "get_forecast": ("weather", "Get the weather forecast for several days.", "location*, days*:int", ("weather",), ["""
        (show me|give me|get) the {days}( |-)day forecast for {city:location}
        <whats> the forecast for {city:location} for the next {days} days
        <whats> the {days}( |-)day <forecast> for {city:location}
        {days}( |-)day <forecast> for {city:location}
        weather in {city:location} for the next {days} days
        how will the weather be in {city:location} over the next {days} days
        <tell> the <forecast> for the next {days} days in {city:location}
        forecast {city:location} for {days} days
        what will the weather in {city:location} be over the coming {days} days
        I need the {city:location} forecast for {days} days
        """]),
    "get_air_quality": ("weather", "Get the air quality of a city.", "location*", (), ["""
        (how is|how's|what's|what is) the air quality in {city:location}
        air quality in {city:location}
        is the air (clean|polluted|bad) in {city:location}
        <tell> the air quality in {city:location}
        how (polluted|clean) is the air in {city:location}
        check [the] air quality (in|for) {city:location}
        <whats> the pollution level in {city:location}
        get the air quality index for {city:location}
        is there [a lot of] smog in {city:location}
        how is the air in {city:location}
        """]),
    "get_sun_times": ("weather", "Get sunrise and sunset.", "location, date, event*:sunrise|sunset", (), [
        ({"event": "sunrise"}, """
        when is sunrise [in {city:location}]
        when does the sun (rise|come up) [in {city:location}]
        what time is sunrise {on_date:date}
        what time does the sun rise in {city:location} {on_date:date}
        sunrise time [for {city:location}]
        <tell> when the sun comes up {on_date:date}
        """), ({"event": "sunset"}, """
        when is sunset [in {city:location}]
        when does the sun (set|go down) [in {city:location}]
        what time is sunset {on_date:date}
        what time does the sun set in {city:location} {on_date:date}
        sunset time [for {city:location}]
        <tell> when the sun goes down {on_date:date}
        """)]),
    "take_photo": ("camera", "Take a photo.", "camera:front|back, count:int, delay_seconds:int", (), ["""
        take a (photo|picture)
        take a (photo|picture) with the {facing:camera} camera
        take {few:count} (photos|pictures)
        take {few:count} (photos|pictures) with the {facing:camera} camera
        take a (photo|picture) in {seconds:delay_seconds} seconds
        (snap|shoot) a (photo|picture)
        snap {few:count} (photos|pictures) in {seconds:delay_seconds} seconds
        use the {facing:camera} camera to take a (photo|picture)
        take a picture with a {seconds:delay_seconds} second delay
        capture a photo with the {facing:camera} camera
        I want a photo from the {facing:camera} camera
        """, ({"camera": "front"}, """
        take a selfie
        snap a selfie
        take a selfie in {seconds:delay_seconds} seconds
        """)]),
    "record_video": ("camera", "Record a video.", "camera:front|back, duration_seconds:int, quality:hd|full_hd|4k", (), ["""
        (record|shoot|film) a video
        (record|shoot|film) a video with the {facing:camera} camera
        (record|shoot|film) a {seconds:duration_seconds} second video
        record a video for {seconds:duration_seconds} seconds
        record a video in {quality}
        (record|film) a {quality} video with the {facing:camera} camera
        start recording [a] video
        film for {seconds:duration_seconds} seconds in {quality}
        shoot {seconds:duration_seconds} seconds of video
        capture a {quality} video
        make a video with the {facing:camera} camera
        """]),
    "calculate": ("maths", "Evaluate an arithmetic expression.", "expression*", (), ["""
        (calculate|compute|evaluate) {expression}
        (what's|what is|whats) {expression}
        how much is {expression}
        work out {expression} [for me]
        <tell> what {expression} is
        solve {expression}
        {expression} equals what
        do the math: {expression}
        can you calculate {expression}
        <whats> the result of {expression}
        I need to know {expression}
        """]),
    "convert_units": ("maths", "Convert a measurement to another unit.",
                      f"value*:num, from_unit*:{_UNIT}, to_unit*:{_UNIT}", (), ["""
        convert {measure:value} {length_pair}
        convert {measure:value} {weight_pair}
        convert {measure:value} {volume_pair}
        convert {measure:value} {degree_pair}
        change {measure:value} {length_pair}
        change {measure:value} {weight_pair}
        (what's|what is) {measure:value} {length_pair}
        (what's|what is) {measure:value} {degree_pair}
        (what's|what is) {measure:value} {volume_pair}
        turn {measure:value} {weight_pair}
        turn {measure:value} {volume_pair}
        {measure:value} {degree_pair}
        {measure:value} {length_pair}
        """]),
    "convert_currency": ("finance", "Convert an amount of money.",
                         f"amount*:num, from_currency*:{_CURRENCY}, to_currency*:{_CURRENCY}", (), ["""
        convert {amount} {currency_pair}
        (change|exchange) {amount} {currency_pair}
        (what's|what is) {amount} {currency_pair}
        {amount} {currency_pair}
        how much is it if I change {amount} {currency_pair}
        turn {amount} {currency_pair}
        <want> (convert|exchange) {amount} {currency_pair}
        work out {amount} {currency_pair}
        give me the rate for {amount} {currency_pair}
        do the conversion of {amount} {currency_pair}
        """]),
    "calculate_tip": ("finance", "Work out the tip on a bill.", "amount*:num, percent*:int, people:int", (), ["""
        (what's|what is) a {tip_percent:percent}( percent|%) tip on {amount} [dollars]
        calculate a {tip_percent:percent}( percent|%) tip on {amount} [dollars]
        how much is a {tip_percent:percent}( percent|%) tip on [a bill of] {amount} [dollars]
        tip {tip_percent:percent}( percent|%) on {amount} [dollars]
        add a {tip_percent:percent}( percent|%) tip to {amount} [dollars]
        calculate the tip on {amount} [dollars] at {tip_percent:percent}( percent|%)
        calculate a {tip_percent:percent}( percent|%) tip on {amount} [dollars] for {people_count:people} people
        split {amount} [dollars] with a {tip_percent:percent}( percent|%) tip between {people_count:people} people
        (what's|what is) the tip for {amount} [dollars] at {tip_percent:percent}( percent|%) split by {people_count:people} people
        the bill is {amount} [dollars], (work out|calculate) a {tip_percent:percent}( percent|%) tip
        """]),
    "random_number": ("maths", "Draw a random whole number.", "minimum*:int, maximum*:int", (), ["""
        (pick|give me|generate|choose) a [random] number between {low:minimum} and {high:maximum}
        (pick|give me|generate|choose) a [random] number from {low:minimum} to {high:maximum}
        random number between {low:minimum} and {high:maximum}
        random number from {low:minimum} to {high:maximum}
        think of a number between {low:minimum} and {high:maximum}
        draw a number from {low:minimum} to {high:maximum}
        roll a number between {low:minimum} and {high:maximum}
        I need a random number from {low:minimum} to {high:maximum}
        say a number between {low:minimum} and {high:maximum}
        let chance decide: a number from {low:minimum} to {high:maximum}
        """]),
    "translate_text": ("language", "Translate a text.", "text*, target_language*, source_language", (), ["""
        translate {phrase:text} (to|into) {language:target_language}
        how do you say {phrase:text} in {language:target_language}
        (what's|what is) {phrase:text} in {language:target_language}
        translate {phrase:text} from {language:source_language} to {language:target_language}
        say {phrase:text} in {language:target_language}
        how would I say {phrase:text} in {language:target_language}
        translate this to {language:target_language}: {phrase:text}
        give me the {language:target_language} (for|translation of) {phrase:text}
        put {phrase:text} into {language:target_language}
        I need {phrase:text} translated (to|into) {language:target_language}
        """]),
    "define_word": ("language", "Look up the definition of a word.", "word*", ("fact",), ["""
        define {word}
        what does {word} mean
        (what's|what is) the (meaning|definition) of {word}
        what does the word {word} mean
        look up [the word] {word} in the dictionary
        <tell> the (meaning|definition) of {word}
        what is meant by {word}
        give me a definition of {word}
        explain the word {word}
        dictionary entry for {word}
        """]),
    "order_food": ("food", "Order a dish.", "dish*, quantity:int, restaurant", ("order",), ["""
        <get_order> [a|some] {dish}
        <get_order> {quantity} portions of {dish}
        <get_order> [some] {dish} from {restaurant}
        <get_order> {quantity} portions of {dish} from {restaurant}
        I'd like to order [some] {dish}
        I'd like to order {quantity} servings of {dish} from {restaurant}
        I want {dish} from {restaurant}
        have [some] {dish} delivered
        have {quantity} servings of {dish} delivered from {restaurant}
        place an order for {dish} at {restaurant}
        can we get {dish} from {restaurant}
        """]),
    "order_pizza": ("food", "Order a pizza.", "size:small|medium|large|extra_large, toppings:[str], quantity:int", ("order",), ["""
        order a {size} pizza
        order a pizza with {toppings}
        order a {size} pizza with {toppings}
        <get_order> {quantity} {size} pizzas
        <get_order> {quantity} {size} pizzas with {toppings}
        <get_order> {quantity} pizzas with {toppings}
        I'd like a {size} pizza with {toppings}
        I want a pizza with {toppings}
        have a {size} pizza delivered
        a {size} pizza with {toppings}, please
        can I have {quantity} {size} pizzas
        """]),
    "order_coffee": ("food", "Order a coffee or hot drink.",
                     "drink*:latte|cappuccino|espresso|flat_white|americano|mocha|hot_chocolate, "
                     "size:small|medium|large|extra_large, milk:oat|soy|almond|whole, quantity:int", (), ["""
        <get_order> a {drink}
        <get_order> a {size} {drink}
        <get_order> a {drink} with {milk}
        <get_order> a {size} {drink} with {milk}
        I'd like a {size} {drink}
        I'd like a {drink} with {milk}
        can I have a {size} {drink}
        can I get {quantity} {size} {drink}s
        a {size} {drink} with {milk}, please
        buy me a {drink}
        """]),
    "book_table": ("food", "Reserve a table at a restaurant.", "restaurant*, people*:int, date, time", (), ["""
        (book|reserve) a table for {people_count:people} at {restaurant}
        (book|reserve) a table for {people_count:people} at {restaurant} {on_date:date}
        (book|reserve) a table for {people_count:people} at {restaurant} {on_date:date} {at_time:time}
        (book|reserve) a table at {restaurant} for {people_count:people} people {at_time:time}
        make a reservation for {people_count:people} at {restaurant} {on_date:date}
        make a reservation at {restaurant} for {people_count:people} people
        get us a table for {people_count:people} at {restaurant}
        I need a table for {people_count:people} at {restaurant} {at_time:time}
        reserve {restaurant} for {people_count:people} people {on_date:date}
        can you get a table for {people_count:people} at {restaurant} {on_date:date} {at_time:time}
        """]),
    "find_recipe": ("food", "Find a recipe.", "dish*, max_minutes:int, diet:vegan|vegetarian|gluten_free|keto", (), ["""
        <find> a recipe for {dish}
        <find> a {diet} recipe for {dish}
        how do I (make|cook) {dish}
        show me how to (make|cook|prepare) {dish}
        recipe for {dish}
        recipe for {dish} in under {duration:max_minutes} minutes
        <find> a recipe for {dish} that takes less than {duration:max_minutes} minutes
        I want to (make|cook) {dish}, (find|show me) a recipe
        <find> a {diet} {dish} recipe
        give me a {diet} recipe for {dish} in under {duration:max_minutes} minutes
        """]),
    "book_flight": ("travel", "Book a flight.",
                    "origin, destination*, date*, passengers:int, cabin:economy|business|first", (), ["""
        book a flight to {city:destination} {on_date:date}
        book a flight from {city:origin} to {city:destination} {on_date:date}
        book a {cabin} class flight to {city:destination} {on_date:date}
        book a {cabin} class flight from {city:origin} to {city:destination} {on_date:date}
        book {few:passengers} {cabin} class tickets from {city:origin} to {city:destination} {on_date:date}
        book {few:passengers} tickets to {city:destination} {on_date:date}
        <want> fly to {city:destination} {on_date:date}
        <want> fly from {city:origin} to {city:destination} {on_date:date}
        get me a flight to {city:destination} {on_date:date}
        reserve a flight from {city:origin} to {city:destination} {on_date:date} for {few:passengers} people
        I need a {cabin} class ticket to {city:destination} {on_date:date}
        """]),
    "book_hotel": ("travel", "Book a hotel.", "city*, nights*:int, check_in, guests:int", (), ["""
        book a hotel in {city} for {few:nights} nights
        book a hotel in {city} for {few:nights} nights from {date:check_in}
        (find|book) a [hotel] room in {city} for {few:nights} nights
        (find|book) a room in {city} for {few:nights} nights for {people_count:guests} (people|guests)
        reserve a hotel in {city} for {few:nights} nights starting {on_date:check_in}
        I need a hotel in {city} for {few:nights} nights
        <want> stay in {city} for {few:nights} nights
        book {few:nights} nights in {city} for {people_count:guests} (people|guests)
        book {few:nights} nights in {city} from {date:check_in}
        get us a hotel room in {city} for {few:nights} nights
        """]),
    "order_taxi": ("travel", "Order a taxi.", "destination*, pickup, time, vehicle:standard|van|accessible", (), ["""
        (order|get me|call|book) a {vehicle} to {place:destination}
        (order|get me|call|book) a {vehicle} from {place:pickup} to {place:destination}
        (order|get me|call|book) a {vehicle} to {place:destination} {at_time:time}
        I need a {vehicle} to {place:destination}
        I need a {vehicle} from {place:pickup} to {place:destination} {at_time:time}
        <find> me a {vehicle} to {place:destination}
        can you get me a {vehicle} to {place:destination}
        pick me up at {place:pickup} with a {vehicle} to {place:destination}
        have a {vehicle} take me to {place:destination} {at_time:time}
        send a {vehicle} to {place:pickup}, I'm going to {place:destination}
        """]),
    "track_flight": ("travel", "Get the status of a flight.", "flight_number*", (), ["""
        (track|check) flight {flight:flight_number}
        is flight {flight:flight_number} (on time|delayed)
        (what's|what is) the status of [flight] {flight:flight_number}
        when does [flight] {flight:flight_number} (land|arrive)
        when does [flight] {flight:flight_number} (leave|depart|take off)
        status of flight {flight:flight_number}
        has [flight] {flight:flight_number} landed [yet]
        flight status {flight:flight_number}
        <tell> where flight {flight:flight_number} is
        follow flight {flight:flight_number}
        """]),
    "transfer_money": ("finance", "Send money to a person.", "recipient*, amount*:num, note", ("pay",), ["""
        send {amount} (dollars|bucks) to {person:recipient}
        send {person:recipient} {amount} (dollars|bucks)
        transfer {amount} dollars to {person:recipient}
        pay {person:recipient} {amount} dollars
        pay {person:recipient} {amount} dollars for {event:note}
        wire {amount} dollars to {person:recipient}
        give {person:recipient} {amount} dollars from my account
        transfer {amount} dollars to {person:recipient} with the note {event:note}
        <want> send {amount} dollars to {person:recipient}
        make a payment of {amount} dollars to {person:recipient}
        I owe {person:recipient} {amount} dollars, pay it
        """]),
    "get_stock_price": ("finance", "Get the share price of a company.", "company*", ("fact",), ["""
        (what's|what is) the (stock|share) price of {company}
        how is {company} stock doing [today]
        how much is {company} stock
        how much is a share of {company}
        {company} stock price
        check the {company} (stock|share) price
        what is {company} trading at
        <tell> the stock price of {company}
        look up {company} shares
        get a quote for {company} stock
        """]),
    "check_balance": ("finance", "Get the balance of an account.", "account*:checking|savings|credit_card", (), ["""
        (what's|what is) (my|the) {account} [account] balance
        (what's|what is) the balance of my {account} [account]
        how much money is (in|on) my {account} [account]
        how much do I have (in|on) my {account} [account]
        check my {account} balance
        show me my {account} balance
        balance of my {account} [account]
        <tell> my {account} balance
        {account} account balance
        how much is left (in|on) my {account} [account]
        """]),
    "search_web": ("web", "Search the web.", "query*", ("fact",), ["""
        search [the web] for {topic:query}
        google {topic:query}
        search online for {topic:query}
        look up {topic:query} [online|on the internet]
        do a web search for {topic:query}
        find information (on|about) {topic:query}
        search the internet for {topic:query}
        <want> know about {topic:query}
        see what the web says about {topic:query}
        web search {topic:query}
        find me something online about {topic:query}
        """]),
    "open_website": ("web", "Open a website.", "url*", (), ["""
        (open|go to|visit) {website:url}
        (open|load|show me) the (website|page) {website:url}
        take me to {website:url}
        browse to {website:url}
        navigate to {website:url} in the browser
        pull up {website:url}
        show {website:url}
        open {website:url} in a new tab
        go to the site {website:url}
        bring up the page {website:url}
        """]),
    "get_news": ("web", "Get news headlines.",
                 "category:sports|politics|technology|business|science|health|entertainment, count:int", (), ["""
        (what's|what is) (in the|the latest) news
        what's happening in {category}
        <tell> the [latest] news
        <tell> the [latest] {category} news
        (read|show) [me] the {category} headlines
        (read|show) [me] the top {count} headlines
        (read|show) [me] the top {count} {category} headlines
        any {category} news
        latest {category} news
        give me {count} {category} stories
        news about {category}
        """]),
    "open_app": ("phone", "Open an app.", "app*", (), ["""
        (open|launch|start) {app}
        (open|launch|start) {app} for me
        fire up {app}
        bring up {app}
        switch to {app}
        I want to use {app}
        go to {app}
        pull up {app}
        load {app}
        run {app}
        """]),
    "toggle_setting": ("phone", "Switch a phone setting on or off.", f"setting*:{_SETTING}, enabled*:bool", ("switch",), [
        ({"enabled": True}, """
        (turn|switch) on {setting}
        (turn|switch) {setting} on
        (enable|activate) {setting}
        put my phone's {setting} on
        I need {setting} on
        make sure {setting} is on
        """), ({"enabled": False}, """
        (turn|switch) off {setting}
        (turn|switch) {setting} off
        (disable|deactivate) {setting}
        shut off {setting}
        I don't need {setting}, turn it off
        make sure {setting} is off
        """)]),
    "find_device": ("phone", "Make a lost belonging with a tag ring.", "item*", (), ["""
        find my {belonging:item}
        where (is|are) my {belonging:item}
        help me find my {belonging:item}
        I lost my {belonging:item}
        I can't find my {belonging:item}
        ring my {belonging:item}
        make my {belonging:item} ring
        locate my {belonging:item}
        I've misplaced my {belonging:item}
        track down my {belonging:item}
        """]),
    "log_workout": ("fitness", "Log a workout.", "activity*, minutes*:int, distance_km:num", (), ["""
        log {duration:minutes} minutes of {activity}
        I did {duration:minutes} minutes of {activity}
        record {duration:minutes} minutes of {activity}
        add a {duration:minutes} minute {activity} workout
        I just finished {duration:minutes} minutes of {activity}
        log a {activity} workout of {duration:minutes} minutes
        log {distance:distance_km} (kilometers|km) of {activity} in {duration:minutes} minutes
        I did {distance:distance_km} (kilometers|km) of {activity} in {duration:minutes} minutes
        track my {activity}, {duration:minutes} minutes
        save a {duration:minutes} minute {activity} session
        """]),
    "log_water": ("fitness", "Log water that was drunk.", "milliliters*:int", (), ["""
        log {milliliters} (milliliters|ml) of water
        I drank {milliliters} (milliliters|ml) of water
        add {milliliters} (milliliters|ml) to my water intake
        record {milliliters} (milliliters|ml) of water
        I just had {milliliters} (milliliters|ml) of water
        track {milliliters} (milliliters|ml) of water
        water intake {milliliters} (milliliters|ml)
        put down {milliliters} (milliliters|ml) of water
        note {milliliters} (milliliters|ml) of water for today
        count {milliliters} (milliliters|ml) of water
        """]),
    "log_weight": ("fitness", "Log the body weight.", "kilograms*:num", (), ["""
        log my weight as {weight:kilograms} (kilos|kilograms|kg)
        I weigh {weight:kilograms} (kilos|kilograms|kg)
        I weigh {weight:kilograms} (kilos|kilograms|kg) today
        record my weight: {weight:kilograms} (kilos|kilograms|kg)
        my weight is {weight:kilograms} (kilos|kilograms|kg)
        set my weight to {weight:kilograms} (kilos|kilograms|kg)
        the scale says {weight:kilograms} (kilos|kilograms|kg)
        enter a weight of {weight:kilograms} (kilos|kilograms|kg)
        update my weight to {weight:kilograms} (kilos|kilograms|kg)
        today I'm at {weight:kilograms} (kilos|kilograms|kg)
        """]),
    "log_meal": ("fitness", "Log what was eaten.", "meal*:breakfast|lunch|dinner|snack, food*:[str]", (), ["""
        I had {items:food} for {meal}
        log {items:food} for {meal}
        for {meal} I ate {items:food}
        I ate {items:food} for {meal}
        add {items:food} to my {meal} log
        record {items:food} as my {meal}
        my {meal} was {items:food}
        track {items:food} for {meal}
        put {items:food} down for {meal}
        {meal} was {items:food}, log it
        """]),
    "track_package": ("shopping", "Track a parcel.", "tracking_number*", (), ["""
        track [my] package {tracking:tracking_number}
        where is [my] (package|parcel) {tracking:tracking_number}
        (what's|what is) the status of (package|parcel) {tracking:tracking_number}
        track {tracking:tracking_number}
        when will [my] (package|parcel) {tracking:tracking_number} arrive
        has (package|parcel) {tracking:tracking_number} been delivered
        follow the shipment {tracking:tracking_number}
        check on delivery {tracking:tracking_number}
        tracking number {tracking:tracking_number}, where is it
        look up shipment {tracking:tracking_number}
        """]),
    "return_order": ("shopping", "Start the return of an order.", "order_number*", (), ["""
        return order [number] {order_number}
        I want to return order [number] {order_number}
        start a return for order {order_number}
        send back order {order_number}
        I'd like to send order {order_number} back
        I don't want order {order_number}, return it
        file a return for {order_number}
        open a return for order number {order_number}
        please return my order {order_number}
        how about a refund for order {order_number}
        """]),
    "tell_joke": ("fun", "Tell a joke.", "topic", ("chat",), ["""
        tell [me] a joke
        tell [me] a joke about {joke_topic:topic}
        do you know a joke
        do you know [any] jokes about {joke_topic:topic}
        make me laugh
        say something funny
        I want to hear a joke about {joke_topic:topic}
        give me a joke about {joke_topic:topic}
        got any jokes about {joke_topic:topic}
        cheer me up with a joke
        another joke about {joke_topic:topic}
        """]),
    "roll_dice": ("fun", "Roll dice.", "count:int, sides:int", (), ["""
        roll a (die|dice)
        roll the dice
        roll {few:count} dice
        roll a {sides}( |-)sided (die|dice)
        roll {few:count} {sides}( |-)sided dice
        throw a (die|dice)
        throw {few:count} dice
        give me a dice roll
        toss {few:count} dice
        dice roll with {few:count} dice
        """]),
    "add_contact": ("calls", "Save a contact.", "name*, phone, email", (), ["""
        (add|save) {full_name:name} to my contacts
        (add|save) {full_name:name} to my contacts with [the] number {phone}
        (add|create|save) a [new] contact for {full_name:name}
        new contact {full_name:name}, {phone}
        save {phone} as {full_name:name}
        add {full_name:name} with the email {email} to my contacts
        create a contact called {full_name:name} with the email {email}
        put {full_name:name} in my address book
        store the number {phone} for {full_name:name}
        remember that {full_name:name}'s number is {phone}
        """]),
}  # fmt: skip

# More wordings for tools of the smart home whose original templates are few.
EXTRA: dict[str, str] = {
    "broadcast": """
        announce that {message}
        announce: {message}
        broadcast: {message}
        make an announcement that {message}
        tell everyone [in the house] that {message}
        let everyone know that {message}
        say {message} on all speakers
        broadcast the message {message}
        """,
    "lock": """
        lock up [the|my] {lock:name}
        make sure [the|my] {lock:name} is locked
        please lock [the|my] {lock:name}
        secure [the|my] {lock:name}
        lock [the|my] {lock:name} for me
        """,
    "unlock": """
        please unlock [the|my] {lock:name}
        unlock [the|my] {lock:name} for me
        make sure [the|my] {lock:name} is unlocked
        unbolt [the|my] {lock:name}
        """,
    "press_button": """
        press [the|my] button {button:name}
        hit [the|my] {button:name} button
        tap [the|my] {button:name} button
        give [the|my] {button:name} button a push
        """,
    "run_script": """
        run [the|my] {script:name}
        execute [the|my] {script:name} script
        start [the|my] script {script:name}
        trigger [the|my] {script:name} script
        launch the script {script:name}
        """,
    "activate_scene": """
        activate [the] scene {scene:name}
        set [the] {scene:name} scene
        apply [the] {scene:name} scene in [the] {area}
        start [the] {scene:name} scene
        use [the] {scene:name} scene
        """,
    "locate_person": """
        do you know where {person:name} is
        tell me where {person:name} is
        locate {person:name}
        find out where {person:name} is
        where's {person:name} right now
        """,
    "check_presence": """
        has {person:name} arrived at the {zone}
        tell me if {person:name} is at the {zone}
        check if {person:name} is at the {zone}
        did {person:name} leave the {zone}
        is {person:name} still at the {zone}
        """,
    "list_present": """
        who's at the {zone}
        tell me who is at the {zone}
        which people are at the {zone}
        is there anyone at the {zone}
        """,
    "get_current_date": """
        what day is it [today]
        which day is today
        what's today's date
        what date is it
        do you know today's date
        tell me what day it is
        """,
    "get_current_time": """
        do you have the time
        tell me what time it is
        got the time
        what's the time right now
        how late is it
        """,
    "add_shopping_item": """
        add {item} to my shopping
        we need {item}, put it on the shopping list
        put {item} down on the shopping list
        shopping list: {item}
        I need to buy {item}, add it to the shopping list
        we're out of {item}, add it to the shopping list
        write {item} on the shopping list
        """,
    "remove_shopping_item": """
        take {item} off the shopping list
        I bought {item}, take it off the shopping list
        scratch {item} from the shopping list
        we don't need {item} anymore, remove it from the shopping list
        delete {item} from my shopping list
        """,
    "add_list_item": """
        put {entry:item} down on my {list} list
        write {entry:item} on [my|the] {list} list
        my {list} list needs {entry:item}
        {list} list: add {entry:item}
        include {entry:item} in [my|the] {list} list
        """,
    "complete_list_item": """
        mark {entry:item} as done on [my|the] {list} list
        tick {entry:item} off [my|the] {list} list
        {entry:item} is done, check it off [my|the] {list} list
        on [my|the] {list} list, mark {entry:item} complete
        """,
    "remove_list_item": """
        take {entry:item} off [my|the] {list} list
        erase {entry:item} from [my|the] {list} list
        drop {entry:item} from [my|the] {list} list
        {list} list: remove {entry:item}
        """,
    "mute": """
        silence [the|my] {player:name}
        mute the sound on [the|my] {player:name}
        turn the sound off on [the|my] {player:name}
        """,
    "unmute": """
        turn the sound back on on [the|my] {player:name}
        unmute the sound on [the|my] {player:name}
        bring back the sound on [the|my] {player:name}
        """,
    "pause_media": """
        pause what's playing on [the|my] {player:name}
        hold the music in [the|my] {area}
        pause the (movie|show) on [the|my] {player:name}
        """,
    "resume_media": """
        keep playing on [the|my] {player:name}
        continue the music in [the|my] {area}
        continue the (movie|show) on [the|my] {player:name}
        """,
    "start_vacuum": """
        have [the] {vacuum:name} clean [the|my] {area}
        send [the] {vacuum:name} to [the|my] {area}
        vacuum [the|my] {area} please
        let [the] {vacuum:name} clean the {floor} floor
        """,
    "dock_vacuum": """
        send [the] {vacuum:name} back to its base
        send [the] {vacuum:name} home
        dock [the] {vacuum:name}
        {vacuum:name}, go back to your base
        let [the] {vacuum:name} charge
        """,
    "start_mowing": """
        cut the grass
        let [the] {mower:name} mow the lawn
        have [the] {mower:name} cut the grass
        the lawn needs mowing
        """,
    "cancel_all_timers": """
        (delete|remove|clear) all [my|the] timers
        get rid of all [my|the] timers
        clear all timers in [the|my] {area}
        stop every timer
        no more timers, cancel them all
        """,
    "set_temperature": """
        make it {temperature} degrees
        make it {temperature} degrees in [the|my] {area}
        heat [the|my] {area} to {temperature} degrees
        cool [the|my] {area} (to|down to) {temperature} degrees
        set [the|my] {climate:name} to {temperature}
        I want {temperature} degrees in [the|my] {area}
        bring [the|my] {area} to {temperature} degrees
        """,
    "set_light": """
        dim [the|my] lights to {percent:brightness}( percent|%)
        dim [the|my] lights in [the|my] {area} to {percent:brightness}( percent|%)
        dim [the|my] {lamp:name} to {percent:brightness}( percent|%)
        brighten [the|my] {area} lights to {percent:brightness}( percent|%)
        make [the|my] {area} lights {color}
        turn [the|my] {lamp:name} {color}
        I want {color} lights in [the|my] {area}
        """,
    "open_valve": """
        turn on the water at [the|my] {valve:name}
        let water through [the|my] {valve:name}
        please open up [the|my] {valve:name}
        """,
    "close_valve": """
        shut off [the|my] {valve:name}
        turn off the water at [the|my] {valve:name}
        please close [the|my] {valve:name}
        """,
    "open_cover": """
        (open up|raise) all [the] {cover_classes:device_class} in [the|my] {area}
        let some light in, open [the|my] {area} {cover_classes:device_class}
        please open [the|my] {cover:name}
        I want [the|my] {cover_classes:device_class} open
        """,
    "close_cover": """
        (pull down|lower) all [the] {cover_classes:device_class} in [the|my] {area}
        it's too bright, close [the|my] {area} {cover_classes:device_class}
        please close [the|my] {cover:name}
        I want [the|my] {cover_classes:device_class} closed
        """,
}


def all_pools() -> dict[str, Pool]:
    """The word pools and the closed lists of this room."""
    return {**pools(), **CLOSED}


def sentence_templates(groups: Sequence[_Sentences], pool: Mapping[str, Pool]) -> list[Template]:
    """Compile groups of sentences; the combination of a template is the set of its slots."""
    templates = []
    for group in groups:
        fixed, lines = ({}, group) if isinstance(group, str) else group
        for line in filter(None, (line.strip() for line in lines.splitlines())):
            combination = ",".join(sorted({*slots_of(line), *fixed}))
            part = compile_expression(line, _RULES, pool)
            templates.append(Template(line, combination, part, fixed))
    return templates


def own_sources() -> list[ToolSource]:
    """The project's own tools."""
    pool = all_pools()
    return [
        make_source(
            parse_tool(name, description, parameters), domain, sentence_templates(groups, pool), rivals
        )
        for name, (domain, description, parameters, rivals, groups) in TOOLS.items()
    ]
