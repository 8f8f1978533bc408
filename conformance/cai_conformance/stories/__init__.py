"""Stories: made from a seed, read from a user's file, split into training and validation.

Texts only; tokens, windows and batches are made elsewhere.
"""

from cai_conformance.stories.generator import Story, compose, compose_stories, generate_stories
from cai_conformance.stories.reading import MAXIMUM_STORY_BYTES, read_stories
from cai_conformance.stories.splitting import split_stories

__all__ = [
    "MAXIMUM_STORY_BYTES",
    "Story",
    "compose",
    "compose_stories",
    "generate_stories",
    "read_stories",
    "split_stories",
]
