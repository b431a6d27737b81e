"""Make every number of the README and of docs/ anew from the committed results.

    python docs/numbers              tables and sentences
    python docs/numbers --figures    and the figures of docs/evidence.md and docs/paper-results.md

A test does the same and compares: tests/front/test_numbers.py.
"""

from __future__ import annotations

import argparse

from answers import draw_all
from pages import ROOT
from paper_figures import draw_paper
from registry import made, pages


def main() -> None:
    """Write the pages whose numbers have changed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figures", action="store_true", help="draw the figures as well")
    options = parser.parse_args()
    if options.figures:
        draw_all()
        draw_paper()
    for page in pages():
        path = ROOT / page
        text = made(page)
        if text == path.read_text():
            print(f"{page}: as it was")
            continue
        path.write_text(text)
        print(f"{page}: written")


if __name__ == "__main__":
    main()
