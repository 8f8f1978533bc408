"""The sentence patterns, grouped by the part that they play in a story.

A pattern is one sentence, or a few that belong together, with named gaps:

    hero, kind, he, him, his                 the hero: name, what they are, pronouns
    friend, fkind, fhim                      the friend, in the same way
    elder                                    a grown-up of the hero
    goal, noun                               what the story turns on: "red ball" and "ball"
    place, at, spot, tree                    "the park", "in the park", "under the tree", "the tall tree"

Nothing is drawn here, and no part knows in which plots it stands.
"""

from __future__ import annotations

from typing import Final

Part = tuple[str, ...]

# ── openings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

OPENING: Final[Part] = (
    "once upon a time, there was a little {kind} named {hero}.",
    "once there was a {kind} named {hero}.",
    "there was a {kind} named {hero} who lived in a small house.",
    "{hero} was a little {kind}. {he} liked to play {at}.",
    "{hero} was a happy {kind}.",
    "a little {kind} named {hero} liked to run and jump.",
)
COMPANY: Final[Part] = (
    "{hero} had a friend named {friend}. {friend} was a {fkind}.",
    "{his} best friend was a {fkind} named {friend}.",
    "{he} liked to play with a {fkind} named {friend}.",
)
HAS_TOY: Final[Part] = (
    "{he} had a {goal}. {he} loved {his} {goal} very much.",
    "{he} had a {goal}. it was {his} best toy.",
    "{he} got a {goal} from {his} {elder}.",
    "{he} had a {goal}. {he} took it to bed every night.",
)

# ── problems ─────────────────────────────────────────────────────────────────────────────────────────────────────────

LOST: Final[Part] = (
    'one day, {hero} could not find the {goal}. "oh no! where is my {noun}?" said {hero}.',
    'one day, the {noun} was gone. "oh no! where is my {goal}?" said {hero}.',
    "one day, {hero} lost the {goal} {at}. {he} was very sad.",
    "one day, {hero} lost the {goal}. {he} began to cry.",
)
STUCK: Final[Part] = (
    "one day, the wind took the {goal}. it got stuck in {tree}.",
    "one day, the {goal} went up, up, up! it got stuck in {tree}.",
    'one day, the {goal} got stuck in {tree}. "oh no! my {noun} is stuck!" said {hero}.',
)
QUARREL: Final[Part] = (
    '{friend} had a {goal}. "can i play with it?" said {hero}. "no! it is my {noun}!" said {friend}.',
    '{friend} had a {goal}. {hero} wanted the {goal} too. "give it to me!" said {hero}. "no!" said {friend}.',
    "{friend} had a {goal}. {hero} took the {goal} and ran. {friend} began to cry.",
)
AFRAID: Final[Part] = (
    'but {hero} was afraid of {goal}. "i can\'t do it," said {hero}.',
    "{hero} was afraid of {goal}. {hero} wanted to be brave.",
    'one day, {friend} said, "let\'s play!" but {hero} was afraid of {goal}.',
    "{hero} was afraid of {goal}. {hero} hid behind {friend}.",
)
WISH: Final[Part] = (
    "one day, {hero} wanted to make a {goal} for {his} {elder}.",
    '"i want to make a {goal} for {elder}," said {hero}.',
)
MISHAP: Final[Part] = (
    "{he} worked all day. but the {noun} fell down. {hero} was very sad.",
    'but the {noun} fell down. "oh no! look at my {noun}!" said {hero}.',
    "{he} tried and tried, but the {noun} was not good.",
    "crash! the {noun} broke. {hero} began to cry.",
)
FOUND_ANIMAL: Final[Part] = (
    "one day, {hero} saw a {goal} {at}. the {noun} was cold and sad.",
    "one day, {hero} found a {goal} {spot}. it could not find its mom.",
    'one day, a {goal} sat {spot}. "please help me!" said the {noun}.',
    "one day, {hero} saw a {goal} {spot}. it had a bad leg.",
)
RAIN: Final[Part] = (
    "one day, {hero} wanted to play {at} with {his} {goal}. but it began to rain.",
    'one day, it began to rain. "i want to play {at} with my {goal}," said {hero}.',
    "one day, the rain came down. {hero} could not go out with {his} {goal}.",
    "{hero} had a {goal}. one day, the sky was dark. drip, drop! it began to rain.",
)
BIRTHDAY: Final[Part] = (
    "one day, it was {friend}'s birthday. {hero} did not have a gift.",
    'one day, {friend} said, "it\'s my birthday!" {hero} wanted to give {fhim} a gift.',
)

# ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ASK_FRIEND: Final[Part] = (
    '"can you help me?" said {hero}. "yes, i can help you," said {his} friend {friend}.',
    '"don\'t be sad," said {his} friend {friend}. "i will help you."',
    '"what is wrong?" said {his} friend {friend}. "i lost my {noun}," said {hero}.',
)
SEARCH: Final[Part] = (
    "they looked and looked, but they could not find it.",
    "they looked in the house. the {noun} was not there.",
    "{hero} and {friend} looked {at}. the {noun} was not there.",
    "they looked here and there. no {noun}!",
)
JUMP: Final[Part] = (
    "{hero} jumped and jumped, but the tree was too tall.",
    "{hero} tried to get it, but the tree was too tall.",
    "{hero} and {friend} jumped up and down. but the {noun} did not come down.",
    "{hero} threw a stick, but the {noun} did not come down.",
)
PULL: Final[Part] = (
    "they pulled and pulled. the {noun} fell down.",
    "{hero} was mad. {friend} was mad too.",
    "they did not play. they did not talk.",
)
COURAGE: Final[Part] = (
    '"don\'t be afraid," said {friend}. "i will go with you."',
    '"you can do it!" said {friend}. "i will help you."',
    "{hero} tried one time, but it was too hard.",
    '"take my hand," said {friend}. "i will go with you."',
)
COMFORT: Final[Part] = (
    '"don\'t be sad," said {his} friend {friend}. "let\'s try again!"',
    '{his} friend {friend} came and said, "i will help you. let\'s try again!"',
)
FEED: Final[Part] = (
    '"don\'t be sad," said {hero}. "i will help you."',
    "{hero} gave the {noun} some food. the {noun} ate it all.",
    "{hero} gave it some milk and some bread.",
    '"poor little {noun}!" said {friend}. they sang a song for it.',
)
INSIDE: Final[Part] = (
    '"don\'t be sad," said {his} {elder}. "you can play in the house."',
    "{hero} sat by the door and looked at the rain.",
    '"rain, rain, go away!" said {hero}.',
)
THINK: Final[Part] = (
    "{hero} looked in the house. {hero} found {his} {goal}.",
    'then {hero} had an idea. "i can give {fhim} my {goal}!" said {hero}.',
    '"what can i do?" said {hero}. "you can give {fhim} your {goal}," said {his} {elder}.',
)

# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────────

FIND: Final[Part] = (
    'then {friend} looked {spot}. "look! here is your {goal}!" said {friend}.',
    "then {friend} saw the {goal} {spot}.",
    'then {hero} looked {spot}. "i found it! i found my {noun}!" said {hero}.',
)
RESCUE: Final[Part] = (
    "then {his} {elder} came to help. {elder} was very tall and got the {noun} down.",
    '"{elder}, can you help me?" said {hero}. {his} {elder} got the {noun} down.',
    "then the wind came again, and the {noun} fell down.",
    "then {his} {elder} came with a long ladder and got the {noun} down.",
)
SHARE: Final[Part] = (
    'then {his} {elder} came and said, "you can share the {noun}."',
    '"i am sorry," said {hero}. "let\'s share the {noun}," said {friend}.',
    'then {hero} said, "i am sorry. we can play with it."',
)
DARE: Final[Part] = (
    "then {hero} was brave. {hero} went with {friend} and did it!",
    'then {hero} did it. "look at me! i did it!" said {hero}.',
    "{hero} took one step, two steps, three steps. it was not so bad!",
)
REMAKE: Final[Part] = (
    "{hero} and {friend} worked all day. then the {noun} was very good!",
    "then they made a new {noun}. it was a very {goal}!",
)
GIVE_MADE: Final[Part] = (
    '{hero} gave the {noun} to {his} {elder}. "i love it!" said {elder}.',
    '"look, {elder}! i made a {noun} for you!" said {hero}.',
)
TAKE_HOME: Final[Part] = (
    "then {hero} took the {noun} to {his} {elder}. they made a warm bed for it.",
    "then {hero} saw the mom of the {noun} {at}. the {noun} ran to its mom.",
    'the {noun} was happy again. "thank you! you are my friend," said the {noun}.',
)
SUN: Final[Part] = (
    "then the sun came out. {hero} ran to {place} with {his} {goal}.",
    'then {friend} came. "let\'s play with your {goal} in the house!" said {friend}.',
    '"look! the sun is out!" said {friend}. they ran to {place} with the {goal}.',
    "then the sun came out. they saw a rainbow in the sky.",
)
GIVE_GIFT: Final[Part] = (
    '"here is a gift for you," said {hero}. it was the {goal}. "i love it!" said {friend}.',
    "{hero} gave the {goal} to {friend}. {friend} was so happy!",
)

# ── thanks and endings ───────────────────────────────────────────────────────────────────────────────────────────────

THANKS: Final[Part] = (
    '"thank you, {friend}!" said {hero}.',
    '"thank you! you are my best friend," said {hero}.',
    "{hero} was so happy!",
    "{hero} gave {friend} a big hug.",
)
END_TOGETHER: Final[Part] = (
    "{hero} and {friend} played all day.",
    "they played all day and had so much fun.",
    "and they were best friends. the end.",
    "{hero} and {friend} were very happy. the end.",
)
END_HOME: Final[Part] = (
    "{hero} went home and told {his} {elder}. {elder} was very happy.",
    "then {hero} went home and went to bed. the end.",
    "{hero} was very happy. the end.",
    "{hero} smiled and looked at the moon and the stars. good night, {hero}!",
)
END_MADE: Final[Part] = (
    "{elder} smiled and gave {him} a big kiss.",
    "{elder} gave {hero} and {friend} a big hug. the end.",
    "{hero} was very happy. the end.",
)
LESSON: Final[Part] = (
    "{hero} learned that it is good to share.",
    "from that day on, they shared all the toys.",
)
BRAVE_LESSON: Final[Part] = (
    "from that day on, {hero} was not afraid of {goal}.",
    "{hero} learned to be brave.",
)

# ── the whole of a very short story, from beginning to end ───────────────────────────────────────────────────────────

BRIEF_LOST: Final[Part] = ("{hero} lost {his} {goal}.", "oh no! {hero} lost a {noun}.")
BRIEF_FIND: Final[Part] = ("{friend} found it.", "it was {spot}.")
BRIEF_WANT: Final[Part] = ("{hero} wanted a {goal}.", "{hero} was sad. no {noun}!")
BRIEF_GET: Final[Part] = ("{his} {elder} gave {him} a {noun}.", "{friend} gave {him} a {noun}.")
BRIEF_TRIP: Final[Part] = ("{hero} and {friend} went to {place}.", "{hero} and {friend} ran to {place}.")
BRIEF_PLAY: Final[Part] = ("they had fun.", "they found a {goal}.", "they played all day.")
BRIEF_END: Final[Part] = ('"thank you!"', "{hero} was happy!", "the end.")
BRIEF_JOY: Final[Part] = ("they were happy.", "the end.", "they went home.")
