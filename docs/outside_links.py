"""A hook of mkdocs: links that leave docs/ become links to the repository's files.

On a code host `../results/x` leads to a folder; the site has no such page. The words stay, the file
is named beside them.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    depth = page.file.src_uri.count("/")

    def named(link: re.Match[str]) -> str:
        words, climbs, target = link[1], link[2], link[3]
        if climbs.count("../") <= depth:
            return link[0]  # another page of the site
        return f"{words} (`{target}` in the repository)"

    return OUTSIDE.sub(named, markdown)
