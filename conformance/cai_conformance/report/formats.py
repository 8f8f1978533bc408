"""The output formats, and which one a stream gets when nobody asks."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """What `--format` accepts."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"


def default_format(is_terminal: bool) -> Format:
    """Give a terminal the table and anything else JSON lines."""
    return Format.TABLE if is_terminal else Format.JSON
