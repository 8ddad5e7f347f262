"""Word pools of augmentation: values that the embedded generator has not, and words around names.

`HELD_OUT_PREFIXES` and `HELD_OUT_SUFFIXES` are for tests of unseen names: nothing in training may use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_WORDS = """
abacus acorn adventure alba alcove amber anchor anvil apricot apron archer armada arrow aspen aster atlas
auburn badge badger ballad bamboo bandit banjo banner barley barnacle barrel basalt basket bayou beacon
beaver beetle berry birch biscuit bison blaze blossom blueprint boat bobcat bonfire boulder bramble branch
brass brave briar brick bridge bronze brook broom bubble bugle bundle cactus cairn caldera camel candle
canoe canyon caramel caravan cardinal caribou carnival carpet catapult cedar cello chalk chapel cherry
chestnut chimney chisel chorus cider cinder cinnabar circle citadel citrus clay clever cliff clover coast
cobalt cobra comet copperhead coral cork cormorant cosy coyote cradle crane crater cricket crimson crisp
cube curious cyclone cypress dagger daisy damask daring dario dawn deer delta diamond dingo dolphin donkey
drift drum dusk dynamo eager eagle eclipse elbow elder elephant ember emerald equator ermine evergreen fable
falcon fancy feather fern ferret festival fiddle field fierce fig filament finch fjord flame flask flint
flute foam forge fossil fox fresco frost galaxy galleon gargoyle garnet gazelle gentle geyser ghost giant
giraffe glacier glove goblin gold gondola goose gorge granite grape gravel grove gryphon gull halibut hammer
hare harp hawk heather helmet heron hickory hollow horizon hornet humble hyacinth igloo indigo iris isthmus
ivory ivy jade jaguar jasmine javelin jelly jewel jigsaw jolly jonas journey jubilee jungle juniper karla
kayak keen kernel kestrel kite knapsack koala krypton labyrinth lacquer ladder lagoon lark laurel lavender
ledge lemon lemur leon leopard lichen lilac lily lime linen lively lizard locket lumber lunar lynx mackerel
magnet magnolia magpie mandolin mango mantle marble marigold marlin marsh mastiff medallion melody melon
mercury merry meteor mighty misty mitten modest monocle monsoon moose mosaic moss mulberry narwhal nebula
nectar needle nettle nickel nils nimbus noble nomad oak obsidian ocelot octave odd olga onyx opal orbit
osmium osprey ostrich otter outpost owl pablo palm panther papyrus parapet parrot pasture patch peach
peacock pearl pebble pecan pelican pendulum penguin periscope petal petunia pewter pheasant pigeon pillar
pioneer plain plankton platypus plaza plover plum pocket polar pontoon poplar poppy porcelain prairie prism
puddle puffin puzzle pylon quail quarry quartz quick quiet quill quilt quiver rabbit radish ragtime rampart
rapid rare raven reef ribbon ridge robin rotunda rough ruby rust rustic sable saddle sage sand sandstorm
sapphire satin saturn savanna scarlet scepter schooner seal sequoia sextant shadow shamrock sharp shiny
shore silent silk silo simple sirocco skylark slate sleet smooth soft solid solstice sorrel spark sparrow
spindle spiral spire spruce squirrel stag stallion steady steel stork straw stream strong subtle summit
sundial surf swallow swan sycamore talon tangerine tango tarragon teal tempest tender thicket thistle thorn
tide tiger tilda timber topaz topiary torch totem treasure trellis trident trinket trumpet tugboat tulip
tundra tunnel turnip turtle twig vast vellum viaduct vine violin vivid vortex voyage wagon walnut walrus
warbler wave weasel whisper wicker willow windmill wise witty wolf wombat wool wren yak yam yarrow yew
yonder zebra zenith zephyr zinc
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
acme proxy plugin vertex legacy internal agent sandbox vendor gateway beta ext corp omni delegate
"""

_HELD_OUT_SUFFIXES = """
endpoint handler callback impl rpc cmd proc dispatch operation wrapper hook daemon async resolver adapter
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
