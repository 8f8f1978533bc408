"""Text that fits a terminal: made harmless, measured in cells, folded or clipped between words.

Check ids are never cut, whatever the width: a cut id cannot be copied. Nothing here knows about verdicts or colours.
"""

from __future__ import annotations

from rich.cells import cell_len, chop_cells


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""Text on one line, with everything that could disturb a terminal spelt as an escape.

    White space of any kind becomes one space; control, format and surrogate characters, and what `encoding` cannot
    express, become `\x1b`, `\u202e` and the like.
    """
    words = " ".join(text.split())
    visible = "".join(char if char.isprintable() else _escaped(char) for char in words)
    return visible.encode(encoding, "backslashreplace").decode(encoding)


def fold(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken between words.

    A word that is wider than a line is cut, unless it holds a check id (`::`), which sticks out instead.
    """
    lines = [""]
    for word in text.split(" "):
        for piece in _pieces(word, width):
            joined = f"{lines[-1]} {piece}" if lines[-1] else piece
            if lines[-1] and cell_len(joined) > width:
                lines.append(piece)
            else:
                lines[-1] = joined
    return lines


def clip(text: str, width: int) -> str:
    """As many whole words as fit into `width` cells, with `...` in place of the rest.

    A first word that does not fit is cut itself, unless it holds a check id.
    """
    if cell_len(text) <= width:
        return text
    kept = ""
    for word in text.split(" "):
        longer = f"{kept} {word}" if kept else word
        if cell_len(longer) + len(" ...") > width:
            break
        kept = longer
    if kept:
        return f"{kept} ..."
    word = text.split(" ")[0]
    return "..." if "::" in word else chop_cells(word, width - len("..."))[0] + "..."


def widest_word(text: str) -> int:
    """The cells that the widest word of the text takes."""
    return max(cell_len(word) for word in text.split(" "))


def padded(text: str, width: int) -> str:
    """The text with spaces after it, up to `width` cells."""
    return text + " " * (width - cell_len(text))


def _pieces(word: str, width: int) -> list[str]:
    if cell_len(word) <= width or "::" in word:
        return [word]
    return chop_cells(word, width)


def _escaped(char: str) -> str:
    return char.encode("unicode-escape").decode("ascii")
