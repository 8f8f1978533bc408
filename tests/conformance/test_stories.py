from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.errors import InputError
from cai_conformance.stories import (
    MAXIMUM_STORY_BYTES,
    Story,
    compose,
    compose_stories,
    generate_stories,
    patterns,
    plots,
    read_stories,
    reading,
    split_stories,
)
from cai_conformance.stories.errors import (
    EmptyTraining,
    EmptyValidation,
    InvalidValidationStep,
    NegativeStoryCount,
    NoStories,
    StoriesByteOrderMark,
    StoriesNotUtf8,
    StoriesTooLarge,
    StoryError,
    TooFewStories,
)
from cai_conformance.stories.vocabulary import CHARACTERS, ELDERS, FEARS, FLYING, MADE, SMALL_ANIMALS, TOYS
from cai_reference.splitmix import InvalidSeed, SplitMix64
from cai_reference.text import BpeTokenizer, train
from cai_reference.text.corpus import WHITE_SPACE

# Of the first hundred stories of seed 1, joined by LF; a change of any story changes every golden trained on them.
FIRST_HUNDRED = "29a44b11c3fd09a4e67d1a15aa01973f37ee2ef4723bdd0b2cbf16789a366628"

NAMES = {character.name for character in CHARACTERS}
NOUNS = {noun for goals in (TOYS, FLYING, MADE, SMALL_ANIMALS) for noun in goals.nouns}


@pytest.fixture(scope="module")
def stories() -> tuple[Story, ...]:
    """Five hundred stories with what was drawn for them."""
    return compose_stories(500, 1)


def words_of(text: str) -> list[str]:
    """The words of a text; an apostrophe belongs to its word."""
    return re.findall(r"[a-z']+", text)


def names_of(text: str) -> set[str]:
    """The characters that a text names; "ben's" names ben."""
    return {word.removesuffix("'s") for word in words_of(text)} & NAMES


def is_brief(story: Story) -> bool:
    """Tell whether a story has one of the very short plots."""
    return story.plot in {plot.name for plot in plots.BRIEF_PLOTS}


# ── the generator ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_stories_of_a_seed_are_frozen() -> None:
    """The digest of a hundred stories stays what it was when the goldens were recorded."""
    digest = hashlib.sha256("\n".join(generate_stories(100, 1)).encode()).hexdigest()
    assert FIRST_HUNDRED == digest


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 2**64 - 1))
def test_a_story_does_not_depend_on_the_count(first: int, second: int, seed: int) -> None:
    """Fewer stories of a seed are the beginning of more."""
    fewer, more = sorted((first, second))
    assert generate_stories(fewer, seed) == generate_stories(more, seed)[:fewer]


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_stories_do_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    """Another process with another order of sets makes the same stories."""
    program = "from cai_conformance.stories import generate_stories; print('\\n'.join(generate_stories(40, 9)))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "\n".join(generate_stories(40, 9)) + "\n" == done.stdout


def test_no_stories_and_other_seeds() -> None:
    """None are none, and two seeds share hardly a story."""
    assert () == generate_stories(0, 1)
    assert len(set(generate_stories(50, 1)) & set(generate_stories(50, 2))) <= 2


def test_the_texts_are_those_of_the_composed_stories(stories: tuple[Story, ...]) -> None:
    """Both ways to the stories of a seed give the same texts."""
    assert tuple(story.text for story in stories) == generate_stories(500, 1)


def test_stories_hold_small_letters_and_plain_punctuation(stories: tuple[Story, ...]) -> None:
    """Nothing else occurs, gaps are filled, words stand one space apart, and quotation marks come in pairs."""
    for story in stories:
        assert re.fullmatch(r"[a-z .,!?\"']+", story.text)
        assert "  " not in story.text
        assert story.text[-1] in '.!"'
        assert story.text.count('"') % 2 == 0


def test_the_vocabulary_is_small(stories: tuple[Story, ...]) -> None:
    """A few hundred words, of which the hundred most frequent make up most of the text."""
    counts = Counter(word for story in stories for word in words_of(story.text))
    assert 250 <= len(counts) <= 400
    assert sum(count for _, count in counts.most_common(100)) >= 0.8 * counts.total()


def test_every_pattern_is_used(stories: tuple[Story, ...]) -> None:
    """Five hundred stories use all patterns of all parts, far more than thirty."""
    used = {pattern for story in stories for pattern in story.patterns}
    parts = [value for value in vars(patterns).values() if isinstance(value, tuple)]
    assert {pattern for part in parts for pattern in part} == used
    assert len(used) >= 100


def test_hardly_a_story_occurs_twice(stories: tuple[Story, ...]) -> None:
    """At least 95 in 100 are distinct."""
    assert len({story.text for story in stories}) >= 0.95 * len(stories)


def test_openings_differ(stories: tuple[Story, ...]) -> None:
    """More than half of the openings, where prompts are taken, are distinct: a dozen words each."""
    assert len({tuple(words_of(story.text)[:12]) for story in stories}) > 0.5 * len(stories)


def test_every_plot_occurs_often(stories: tuple[Story, ...]) -> None:
    """No plot is rare."""
    counts = Counter(story.plot for story in stories)
    assert {plot.name for plot in (*plots.PLOTS, *plots.BRIEF_PLOTS)} == set(counts)
    assert min(counts.values()) >= 15


def test_characters_are_hero_and_friend_only(stories: tuple[Story, ...]) -> None:
    """A story names its hero, at most its friend, and nobody else."""
    for story in stories:
        assert story.hero != story.friend
        assert story.hero.name in names_of(story.text)
        assert names_of(story.text) <= {story.hero.name, story.friend.name}


def test_pronouns_are_those_of_hero_and_friend(stories: tuple[Story, ...]) -> None:
    """Without a male nobody is "he", without a female nobody is "she"."""
    for story in stories:
        cast = (story.hero, story.friend)
        allowed = {form for who in cast for form in (who.subject, who.object, who.possessive)}
        assert set(words_of(story.text)) & {"he", "him", "his", "she", "her"} <= allowed


def test_characters_keep_their_kind_and_pronoun(stories: tuple[Story, ...]) -> None:
    """Over all stories a name has one kind and one set of pronouns."""
    seen = {(who.name, who.kind, who.subject) for story in stories for who in (story.hero, story.friend)}
    assert len(CHARACTERS) == len(seen)
    assert NAMES == {name for name, _, _ in seen}


def test_a_story_has_one_goal(stories: tuple[Story, ...]) -> None:
    """The goal is mentioned wherever a plot turns on it, and no other thing, animal or fear is."""
    for story in stories:
        others = (NOUNS | set(FEARS.nouns)) - {story.goal, story.goal.split()[-1]}
        mentioned = {other for other in others if re.search(rf"\b{other}\b", story.text)}
        assert set() == mentioned
        if not story.plot.startswith("brief-trip"):
            assert story.goal.split()[-1] in words_of(story.text)


def test_a_story_has_one_grown_up(stories: tuple[Story, ...]) -> None:
    """No second grown-up appears; the mother of a small animal is the animal's."""
    for story in stories:
        text = story.text.replace("its mom", "").replace("the mom of", "")
        assert set(words_of(text)) & set(ELDERS) <= {story.elder}


def test_most_stories_are_of_middle_length_and_a_sixth_is_very_short(stories: tuple[Story, ...]) -> None:
    """Lengths in characters: 250 to 500, or below 80."""
    brief = [len(story.text) for story in stories if is_brief(story)]
    long = [len(story.text) for story in stories if not is_brief(story)]
    assert 60 <= len(brief) <= 110
    assert min(brief) >= 40
    assert max(brief) <= 80
    assert min(long) >= 250
    assert max(long) <= 500
    assert 300 <= mean(long) <= 400


def test_tokens_of_a_story_fit_small_contexts(stories: tuple[Story, ...]) -> None:
    """With 62 merges nearly all very short stories end within 48 tokens, and the others have 100 to 260."""
    texts = [story.text for story in stories[:80]]
    tokenizer = BpeTokenizer([merge.pair for merge in train([text.encode() for text in texts], 62)])
    lengths = [(is_brief(story), len(tokenizer.encode_document(story.text))) for story in stories[:80]]
    brief = [length for short, length in lengths if short]
    assert sum(length <= 48 for length in brief) >= 0.9 * len(brief)
    assert all(100 <= length <= 260 for short, length in lengths if not short)


def test_more_parts_make_a_longer_story() -> None:
    """A plot is the only control of length: each part adds its sentences at the end."""
    plot = plots.PLOTS[0]
    texts = [
        compose(plots.Plot(plot.name, plot.goals, plot.parts[:size]), SplitMix64(5)).text
        for size in range(1, len(plot.parts) + 1)
    ]
    assert all(longer.startswith(shorter + " ") for shorter, longer in itertools.pairwise(texts))


def test_every_pattern_reads_well_with_every_character() -> None:
    """No "a" stands before a vowel, whoever and whatever is drawn."""
    for text in generate_stories(3000, 77):
        assert not re.search(r"\ba [aeiou]", text)


def test_wrong_counts_and_seeds_are_refused() -> None:
    """A negative count and a seed beyond 64 bits are errors that name the value."""
    with pytest.raises(NegativeStoryCount, match="-3 stories"):
        generate_stories(-3, 1)
    for seed in (-1, 2**64):
        with pytest.raises(InvalidSeed, match=str(seed)):
            generate_stories(0, seed)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"one.", ("one.",)),
        (b"one.\n\ntwo.\n", ("one.", "two.")),
        (b"one.\r\nmore.\r\n\r\ntwo.\r\n", ("one.\nmore.", "two.")),
        (b"one.\r\r\nmore.\rstill.\r", ("one.\nmore.\rstill.",)),
        (b"\n\n one. \n \t\n\n\ntwo.", ("one.", "two.")),
        (b"one.\n<|endoftext|>\ntwo.\n<|endoftext|>\n", ("one.", "two.")),
        (b"one.\n\nmore.\r\n<|endoftext|> \r\n\r\n<|endoftext|>\r\ntwo.", ("one.\n\nmore.", "two.")),
        (b"a <|endoftext|> inside\n\ntwo.", ("a <|endoftext|> inside", "two.")),
        ("Ёж.\n\u2003\nкот\u2028и пёс\n".encode(), ("Ёж.", "кот\u2028и пёс")),
        (b"same.\n\nsame.", ("same.", "same.")),
    ],
)
def test_stories_are_cut_at_blank_lines_or_at_marks(data: bytes, expected: tuple[str, ...]) -> None:
    """Marks, where there are any, leave blank lines inside stories; otherwise blank lines cut; blank stories vanish."""
    assert expected == read_stories(data)


@pytest.mark.parametrize("separator", ["\n\n", "\r\n\r\n", "\n<|endoftext|>\n", "\r\n<|endoftext|>\r\n"])
def test_generated_stories_survive_a_file(separator: str) -> None:
    """Stories written to a file are read as they were."""
    written = generate_stories(25, 3)
    assert written == read_stories(separator.join(written).encode(), minimum=25)


@given(st.text(st.sampled_from("ab \r\n\t\ufeff\x85")) | st.text())
def test_any_text_is_stories_or_a_typed_error(text: str) -> None:
    """What is read holds no CR LF and no white space around it, and reading it again changes nothing."""
    try:
        stories = read_stories(text.encode())
    except (NoStories, StoriesByteOrderMark):
        return
    assert all(story.strip(WHITE_SPACE) == story != "" and "\r\n" not in story for story in stories)
    # The file opens with a line end, since a story may open with U+FEFF, which would be a byte order mark there.
    assert stories == read_stories("".join(f"\n{story}\n<|endoftext|>" for story in stories).encode())


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", NoStories()),
        (b" \r\n\t\n<|endoftext|>\n", NoStories()),
        (b"\xef\xbb\xbfone.", StoriesByteOrderMark()),
        (b"one.\n\ntw\xff.", StoriesNotUtf8(8, "invalid start byte")),
        ("Ё".encode() + b"\xd0", StoriesNotUtf8(2, "unexpected end of data")),
        (b"one.\n\ntwo.", TooFewStories(2, 3)),
    ],
)
def test_a_bad_file_is_refused(data: bytes, error: StoryError) -> None:
    """Each defect has its error, with the values in it."""
    with pytest.raises(StoryError) as caught:
        read_stories(data, minimum=3)
    assert (type(error), str(error), vars(error)) == (type(caught.value), str(caught.value), vars(caught.value))


def test_a_file_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of 64 MiB is checked before anything else; a file of exactly the limit is read."""
    assert 64 * 1024 * 1024 == MAXIMUM_STORY_BYTES
    monkeypatch.setattr(reading, "MAXIMUM_STORY_BYTES", 8)
    assert ("12345678",) == read_stories(b"12345678")
    with pytest.raises(StoriesTooLarge, match="holds 9 bytes; the limit is 8"):
        read_stories(b"\xff23456789"[:9])


# ── the split ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_split_by_hand() -> None:
    """Every third story validates, and its copies do not train, before it or after."""
    stories = ["a", "b", "c", "c", "d", "a", "e", "c", "f", "b"]
    assert (("b", "d", "e", "b"), ("c", "a", "f")) == split_stories(stories, 3)


@given(st.lists(st.text("ab", max_size=3), max_size=30), st.integers(2, 6))
def test_a_split_is_disjoint_and_loses_only_copies(stories: list[str], validation_every: int) -> None:
    """Both sides keep the order and share no text; only copies of validation stories are missing."""
    try:
        training, validation = split_stories(stories, validation_every)
    except EmptyValidation:
        assert len(stories) < validation_every
    except EmptyTraining:
        assert set(stories) == {stories[at] for at in range(len(stories)) if (at + 1) % validation_every == 0}
    else:
        assert len(stories) // validation_every == len(validation)
        assert training
        assert not set(training) & set(validation)
        assert set(stories) == set(training) | set(validation)
        assert list(training) == [story for story in stories if story not in validation]
        assert list(validation) == [story for at, story in enumerate(stories, 1) if at % validation_every == 0]


@pytest.mark.parametrize(
    ("stories", "validation_every", "error"),
    [
        (["a", "b"], 1, InvalidValidationStep(1)),
        (["a", "b"], 0, InvalidValidationStep(0)),
        (["a", "b"], -2, InvalidValidationStep(-2)),
        ([], 2, EmptyValidation(0, 2)),
        (["a", "b"], 3, EmptyValidation(2, 3)),
        (["a", "a", "a"], 2, EmptyTraining(3, 2)),
    ],
)
def test_a_split_with_an_empty_side_is_refused(stories: list[str], validation_every: int, error: StoryError) -> None:
    """Neither side may be empty, and the step has to mean something."""
    with pytest.raises(StoryError) as caught:
        split_stories(stories, validation_every)
    assert (type(error), vars(error)) == (type(caught.value), vars(caught.value))


@pytest.mark.parametrize(
    "error",
    [
        NegativeStoryCount(-1),
        StoriesTooLarge(9, 8),
        StoriesNotUtf8(3, "invalid start byte"),
        StoriesByteOrderMark(),
        NoStories(),
        TooFewStories(2, 3),
        InvalidValidationStep(1),
        EmptyValidation(2, 3),
        EmptyTraining(3, 2),
    ],
)
def test_errors_are_input_errors_that_name_their_values(error: StoryError) -> None:
    """Each is an InputError of exit code 2, survives pickling and holds every value in its text."""
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, InputError)
    assert 2 == error.exit_code
    assert (type(error), str(error), error.next_command) == (type(again), str(again), again.next_command)
    assert all(str(value) in str(error) for value in vars(error).values())
