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
    # In the order in which they are given: the same drawing has the same bytes.
    for name, value in attributes.items():
        if value != "":
            head += _attribute(name, value)
    # A tag that closes itself is a third shorter, and a chart has hundreds.
    if not inside:
        return f"<{head}/>"
    content = "".join(inside)
    return f"<{head}>{content}</{tag}>"


def words_in(tag: str, words: str, **attributes: Value) -> str:
    """An element that holds words, which are escaped."""
    return element(tag, escape(words), **attributes)


def _attribute(name: str, value: Value) -> str:
    # `class` is a word of Python, hence class_; a hyphen would be a minus.
    spelt = name.rstrip("_").replace("_", "-")
    if isinstance(value, float):
        value = f"{value:.1f}"
    # Quotes too: a label must not end the attribute it stands in.
    escaped = escape(str(value))
    return f' {spelt}="{escaped}"'
