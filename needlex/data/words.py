"""Word pools of augmentation: values and affixes that no generator of data draws from.

`HELD_OUT_PREFIXES` and `HELD_OUT_SUFFIXES` are for tests of unseen names: nothing in training may use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_WORDS = """
acorn adventure alba almond amber anchor antique apricot apron archer arrow aspen atlas autumn badge badger
bagel bakery balcony ballad bamboo banjo banner barley barn barrel basil basket bay beacon beaver beetle
bell berry birch biscuit blanket blaze blossom blueprint boat bonfire book bottle boulder branch brass brave
breeze brick bridge bright bronze brook broom bruno bubble bucket buffalo bugle bundle butter button cabin
cactus calm camel candle canoe canyon caravan cardinal carnival carpet carrot castle cedar cello chalk
chapel cherry chestnut chimney chorus cider cinder circle citrus clara clay clever cliff clover coast cobalt
cobra coconut comet compass copper coral cork corner cosy cotton coyote cradle crane crater creek crescent
cricket crimson crisp crown crystal cube cup curious cypress dagger daisy daring dario dawn deer delta
desert diamond dolphin donkey dragon drift drum dune dusk eager eagle echo eclipse elbow elder elena
elephant elm ember emerald engine equator evergreen fable falcon fancy feather felix fern festival fiddle
field fierce fig finch fjord flame flask flint flute foam forest forge fossil fountain fox frost galaxy
garlic garnet gate gazelle gentle ghost giant ginger giraffe glacier glass glove goblin gold golden goose
gorge grand granite grape grass gravel greta grove guitar gull hammer harbor hare harp harvest hawk hazel
heather hedge helmet heron hickory hidden hill hollow honey horizon hornet horse hugo humble ice igloo
indigo ines ink iris iron island ivory ivy jacket jade jaguar jasmine jelly jewel jigsaw jolly jonas journey
jungle juniper karla kayak keen kernel kettle kite koala ladder lagoon lake lantern lark laurel lava
lavender leaf ledge lemon leon leopard lettuce lichen lilac lily lime linen lion little lively lizard
lobster lotus lucky lumber lunar lynx magnet magnolia mango mantle maple marble marigold marsh maya meadow
melody melon mercury merry meteor midnight mighty mill mint mirror misty mitten modest monsoon moose morning
mosaic moss moth mountain mulberry mushroom mustard nectar needle nest nettle nickel nils noble north nutmeg
oak oasis oat obsidian ocean octave odd old olga olive onyx opal orbit orchard orchid osprey otter owl
oyster pablo paddle palace palm panther paper papyrus parrot parsley pasture patch patient peach peacock
pearl pebble pecan pelican penguin pepper petal pewter pheasant phoenix piano pigeon pillar pine pioneer
plain planet plaza plum pocket polar pollen pond poplar poppy porcelain prairie prism proud puddle pumpkin
puzzle quail quarry quartz quick quiet quill quilt rabbit radish rain rapid rare raven reef ribbon ridge
river robin rocket rosa rose rough royal ruby rust rustic saddle saffron sage sail salmon salt sand sapphire
satin saturn savanna scarlet seal secret sequoia shadow shamrock sharp shell shepherd shiny shore silent
silk silver simple skylark slate sleepy sleet small smooth snow soft solid sorrel spark sparrow spice spiral
spruce squirrel stag star steady steam steel stefan stone stork storm strange straw stream strong subtle
summit sunny sunset surf swallow swan swift sycamore tall tangerine tango teal tempest tender thistle thorn
thunder tide tiger tilda timber tiny topaz torch tower trail treasure true trumpet tulip tundra tunnel
turnip turquoise turtle twig umbrella ursula valley vanilla vast velvet vine violet violin vivid volcano
voyage wagon walnut walrus warm waterfall wave wheat whisper wild willow winter wise witty wolf wombat wool
wren yarrow yeast yonder young zebra zenith zephyr zinc
"""

_PREFIXES = """
do get my home api app user call run exec make use try please quick new main core base smart cloud local
device house action tool func perform start request handle go auto easy simple basic hub system bot
"""

_SUFFIXES = """
tool now action api command function call service v1 v2 helper task op please event method feature ability
skill intent control ctl util step item x job entry main default plus app run one here it
"""

_PARAMETER_PREFIXES = "the my target arg param in input given new p user opt"
_PARAMETER_SUFFIXES = "value arg param input name field text opt in str v 1"

_HELD_OUT_PREFIXES = """
acme proxy plugin remote legacy internal agent sandbox vendor gateway beta ext corp omni delegate
"""

_HELD_OUT_SUFFIXES = """
endpoint handler routine impl rpc cmd proc dispatch operation wrapper hook trigger async resolver adapter
"""

WORDS: tuple[str, ...] = tuple(_WORDS.split())
"""Plain words for replaced values."""
PREFIXES: tuple[str, ...] = tuple(_PREFIXES.split())
"""Words put before tool names in training."""
SUFFIXES: tuple[str, ...] = tuple(_SUFFIXES.split())
"""Words put after tool names in training."""
PARAMETER_PREFIXES: tuple[str, ...] = tuple(_PARAMETER_PREFIXES.split())
"""Words put before parameter names in training."""
PARAMETER_SUFFIXES: tuple[str, ...] = tuple(_PARAMETER_SUFFIXES.split())
"""Words put after parameter names in training."""
HELD_OUT_PREFIXES: tuple[str, ...] = tuple(_HELD_OUT_PREFIXES.split())
"""Prefixes never used in training."""
HELD_OUT_SUFFIXES: tuple[str, ...] = tuple(_HELD_OUT_SUFFIXES.split())
"""Suffixes never used in training."""

_HELD_OUT = frozenset(HELD_OUT_PREFIXES + HELD_OUT_SUFFIXES)
_SINGLE = "b c d f g h j k l m n p r s t v w z"
_CLUSTERS = "bl br ch cl cr dr fl fr gl gr kl kr pl pr qu sh sk sl sm sn sp st th tr"
_VOWELS = "a e i o u"
_PAIRS = "ai ea ee ia io oa oo ou ue y"
_INNER_CODAS = "l m n r s"
_FINAL_CODAS = "d k l m n p r s t x n r s l nd ng nt rd rk rn st th"
_ONSETS = 2 * _SINGLE.split() + _CLUSTERS.split()
_NUCLEI = 3 * _VOWELS.split() + _PAIRS.split()
_INNER = 12 * [""] + _INNER_CODAS.split()
_FINAL = 10 * [""] + _FINAL_CODAS.split()

_T = TypeVar("_T")


class Draw:
    """Random draws from a generator, at a tenth of the price of asking it for each."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self._buffer: list[float] = []

    def unit(self) -> float:
        """A number in [0, 1)."""
        if not self._buffer:
            self._buffer = self._rng.random(64).tolist()
        return self._buffer.pop()

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return int(self.unit() * n)

    def pick(self, items: Sequence[_T]) -> _T:
        return items[int(self.unit() * len(items))]

    def pseudo_word(self) -> str:
        """A pronounceable word of two or three syllables that means nothing."""
        pick = self.pick
        while True:
            inner = [pick(_ONSETS) + pick(_NUCLEI) + pick(_INNER) for _ in range(1 + self.below(2))]
            word = "".join(inner) + pick(_ONSETS) + pick(_NUCLEI) + pick(_FINAL)
            if word not in _HELD_OUT:
                return word
