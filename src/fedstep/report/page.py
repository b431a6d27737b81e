"""The frame of an HTML page: style sheet and a few lines of script, no network."""

from __future__ import annotations

from html import escape

COLOURS = (  # light, dark: distinguishable with colour-blind eyes (after Okabe and Ito)
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#009e73", "#2fd0a0"),
    ("#a34a86", "#e39bca"),
    ("#8a6d00", "#e6c229"),
    ("#444444", "#c8c8c8"),
    ("#7b3fe4", "#b79cff"),
    ("#b00020", "#ff6b7d"),
)

STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1c2430; --soft: #5b6675; --line: #e3e7ec; --card: #f7f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --back: #12161c; --text: #e7ebf0; --soft: #9aa6b4; --line: #2a323d; --card: #1a2028; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 20px 18px 60px; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .3em 0 .4em; } h2 { font-size: 1.15rem; margin: 1.8em 0 .5em; }
.lead { color: var(--soft); max-width: 72ch; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; font-size: .93rem; }
th, td { padding: 7px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
td:nth-child(2), th:nth-child(2), .words td, .words th { text-align: left; } th:first-child { width: 36px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 18px; margin-top: 22px; }
figure { margin: 0; padding: 12px 10px 6px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
figcaption { font-weight: 600; font-size: .95rem; padding: 0 6px 6px; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 11.5px; fill: var(--soft); } svg text.axis { font-size: 12px; }
.grid { stroke: var(--line); fill: none; } .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.band { fill: var(--c); opacity: .16; stroke: none; } circle { fill: var(--c); }
.many .band { opacity: .06; }
.dots { fill: none; stroke: var(--c); stroke-width: 4.5; stroke-linecap: round; opacity: .55; }
.line.dashed { stroke-dasharray: 5 4; stroke-width: 1.6; }
.note, .notes { color: var(--soft); font-size: .85rem; line-height: 1.4; margin: 4px 6px 6px; } .notes { padding-left: 1.1em; }
.warn { border-left: 4px solid #d55e00; padding: 6px 12px; background: var(--card); }
code { font-size: .9em; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 14px 0; position: sticky; top: 0; z-index: 1;
  padding: 8px 0; background: var(--back); }
.legend label { cursor: pointer; }
.key { display: inline-block; width: 14px; height: 4px; border-radius: 2px; margin: 0 6px 3px 4px; background: var(--c);
  vertical-align: middle; }
pre { overflow-x: auto; padding: 12px; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  font-size: .85rem; }
.hidden { display: none; }
@media (max-width: 600px) {
  body { padding: 12px 10px 40px; } h1 { font-size: 1.3rem; }
  svg text, svg text.axis { font-size: 16px; }
  figure { padding: 10px 2px 4px; } th, td { padding: 6px 7px; font-size: .85rem; }
  td:nth-child(2), th:nth-child(2) { position: sticky; left: 0; background: var(--back); }
  .legend { flex-wrap: nowrap; overflow-x: auto; white-space: nowrap; }
}
"""

SCRIPT = """
for (const box of document.querySelectorAll("[data-series]")) box.addEventListener("change", () => {
  for (const g of document.querySelectorAll("g.series"))
    if (g.dataset.name === box.dataset.series) g.classList.toggle("hidden", !box.checked);
});
"""


def page(title: str, body: str) -> str:
    """A whole document."""
    light, dark = (
        "".join(f".c{i} {{ --c: {pair[shade]}; }}" for i, pair in enumerate(COLOURS))
        for shade in (0, 1)
    )
    style = f"{STYLE}\n{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><h1>{escape(title)}</h1>\n{body}\n<script>{SCRIPT}</script></body></html>\n"
    )
