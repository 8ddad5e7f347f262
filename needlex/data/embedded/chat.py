"""What people say to an assistant without asking for any tool: the right answer is no call."""

from __future__ import annotations

from needlex.data.embedded.domains import all_pools, sentence_templates
from needlex.data.embedded.held_out import held_out_templates
from needlex.data.embedded.templates import Template

RIVALS = frozenset({"fact", "chat"})
"""Groups of tools that could serve small talk after all and are not offered with it."""

_SENTENCES = """
    (hello|hi|hey|hi there|good morning|good evening)
    (hello|hi|hey) how are you [today]
    how are you [doing] [today]
    (thanks|thank you) [so much|very much|a lot] [for your help]
    (never mind|nevermind|forget it|forget about it)
    (ok|okay|alright|sure|fine|great|cool|nice|perfect|awesome)
    that's (all|it|everything) [for now|for today]
    (yes|no|maybe|not now|not yet) [thank you|thanks]
    what (can|do) you do
    what can I (say|ask) [you]
    who (made|created|built) you
    what's your name
    are you a (robot|human|person|machine)
    are you always listening
    where does my data go
    do you (like|love|enjoy|hate) {joke_topic}
    do you prefer {joke_topic} or {joke_topic}
    what do you think (about|of) {joke_topic}
    I (love|like|hate|adore|miss|can't stand) {joke_topic}
    my favorite food is {dish}
    I had {dish} (yesterday|last night|for lunch) and it was (great|terrible|delicious|too salty)
    {dish} is (better|worse) than {dish}
    I (love|hate|am tired of) {activity}
    {activity} is (fun|boring|good for you|harder than it looks)
    {city} is a (beautiful|big|noisy|lovely|strange) city
    I (was|lived|grew up|got married) in {city}
    I've (always|never) wanted to see {city}
    my name is {person}
    {person} is (my best friend|a good cook|really funny|always late|very kind)
    I (met|saw|ran into) {person} (yesterday|last week|at the {zone})
    {person} and I went to {city} last (year|summer|winter)
    the {zone} was (closed|crowded|empty|wonderful) (yesterday|last week)
    (my|our) {device} is (old|broken|new|noisy|ugly)
    the {area} (smells nice|is my favorite room|looks great|is too small|needs paint)
    I'm (tired|bored|happy|sad|hungry|so excited|a bit sick|in love)
    (today|yesterday) was (a good|a bad|a long|a strange) day
    I (slept|worked|ran|read) (a lot|too much|badly) (today|last night|this week)
    I've been (listening to|singing) {song} all day
    {artist} (was|were) (better|cooler|great) (live|in the early days|when I was young)
    I (saw|watched) {movie} (yesterday|last week) and (loved|hated) it
    {movie} is (overrated|a masterpiece|too long|my favorite movie)
    (what|how) would you (do|feel) in my place
    (tell me about yourself|tell me something about you)
    (can|do) you (dream|sleep|eat|feel pain|get bored)
    you're (funny|smart|great|annoying|the best|wrong|very helpful)
    (good night|goodbye|bye|see you later|talk to you later|sleep well)
    (sorry|excuse me), I (was talking to someone else|didn't mean you)
    (wait|hold on|hang on|one moment|just a second)
    I (don't know|changed my mind|made a mistake|have no idea)
    why is the sky blue
    why do (cats|dogs|birds|people) (yawn|sing|dream|sneeze)
    write [me] a (poem|story|song|haiku) about {joke_topic}
    (give me|do you have) [some|any] advice on how to be (happier|calmer|more patient|a better cook)
    what is the (meaning of life|secret of happiness|best color|worst pizza topping)
    how (old|tall|smart) are you
    (is|are) {joke_topic} (funny|scary|boring|interesting)
    (explain|summarize) the plot of {movie}
    what (should|could) I (wear|read|cook|say) (tonight|tomorrow|at the party|at the wedding)
    who would win, {joke_topic} or {joke_topic}
    I'm (learning|studying|forgetting) {language}
    {language} is a (beautiful|difficult|funny|useful) language
    I used to work (at|for) {company}
    {company} makes (good|bad|expensive|strange) products
    {word} is a (nice|strange|long|funny) word
    (congratulations|well done|good job|not bad)
    (oh no|oh well|wow|hmm|haha|oops|really)
    what a (lovely|terrible|strange|long) (day|week|evening|movie)
    I (finished|started|lost) my (book|homework|job|diet) (today|yesterday|last month)
    how do you (spell|pronounce) {word}
    (let's|we should) (talk|chat|play a game) (sometime|later|for a while)
    I (can't|couldn't) sleep (at all|again|because of the noise)
    my (sister|brother|mother|father|cat|dog) is (visiting|asleep|angry with me|in {city})
    do you (know|remember) {person}
    did you (hear|know) that {person} (moved to {city}|got married|is back)
    (rain|snow|sunshine|fog) makes me (happy|sad|sleepy)
    """


def chat_templates() -> tuple[list[Template], list[Template]]:
    """Small talk for training, and small talk of the `unseen_templates` split."""
    templates = sentence_templates([_SENTENCES], all_pools())
    kept_back = held_out_templates([t.text for t in templates])
    return [t for t in templates if t.text not in kept_back], [t for t in templates if t.text in kept_back]
