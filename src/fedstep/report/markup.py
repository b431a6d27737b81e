"""Elements of a drawing as text; all they are given is escaped, except elements inside them."""

from __future__ import annotations

from html import escape

Value = str | int | float


def element(tag: str, *inside: str, **attributes: Value) -> str:
    """An element around others, which are markup already.

    `class_` and `text_anchor` stand for the names that Python cannot spell. Empty attributes are
    left out; numbers that are not whole keep one digit, a tenth of a pixel.
    """
    head = tag
    for name, value in attributes.items():
        if value != "":
            head += _attribute(name, value)
    # A tag that closes itself is a third shorter, and a chart has hundreds.
    if not inside:
        return f"<{head}/>"
    return f"<{head}>{''.join(inside)}</{tag}>"


def words_in(tag: str, words: str, **attributes: Value) -> str:
    """An element that holds words, which are escaped."""
    return element(tag, escape(words), **attributes)


def _attribute(name: str, value: Value) -> str:
    # `class` is a word of Python, hence class_; a hyphen would be a minus.
    spelt = name.rstrip("_").replace("_", "-")
    if isinstance(value, float):
        value = f"{value:.1f}"
    return f' {spelt}="{escape(str(value))}"'
