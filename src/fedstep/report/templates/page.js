// One listener for the whole page: a page that is watched replaces its parts.
const hidden = new Set();

function showSeries() {
  for (const line of document.querySelectorAll("g.series")) {
    line.classList.toggle("hidden", hidden.has(line.dataset.name));
  }
  for (const box of document.querySelectorAll("[data-series]")) {
    box.checked = !hidden.has(box.dataset.series);
  }
}

// By the attribute: a browser that opens the page again may have kept what was clicked before.
for (const box of document.querySelectorAll("[data-series]:not([checked])")) {
  hidden.add(box.dataset.series);
}
showSeries();

document.addEventListener("change", (event) => {
  const name = event.target.dataset.series;
  if (name === undefined) return;
  if (event.target.checked) hidden.delete(name);
  else hidden.add(name);
  showSeries();
});

// Of many lines one looks at a few: none, and then those.
document.addEventListener("click", (event) => {
  const wanted = event.target.dataset.show;
  if (wanted === undefined) return;
  hidden.clear();
  if (wanted === "none") {
    for (const box of document.querySelectorAll("[data-series]")) hidden.add(box.dataset.series);
  }
  showSeries();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const command = button.parentElement.querySelector("pre");
  try {
    await navigator.clipboard.writeText(command.textContent);
    button.textContent = "Copied";
  } catch {
    // A browser that keeps the clipboard from local files: the command is marked, to be copied by hand.
    getSelection().selectAllChildren(command);
    button.textContent = "Marked";
  }
});

// A click on a head sorts its table; a second one turns the order round.
function orderOf(row, place) {
  const cell = row.cells[place];
  if (cell.dataset.order !== undefined) return Number(cell.dataset.order);
  return cell.textContent.trim().toLowerCase();
}

function before(one, other) {
  if (one === other) return 0;
  // What is no number stands behind every number.
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return one < other ? -1 : 1;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-sort]");
  if (!button) return;
  const head = button.closest("th");
  const ascending = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const body = head.closest("table").tBodies[0];
  const rows = [...body.rows];
  const sign = ascending ? 1 : -1;
  rows.sort((a, b) => sign * before(orderOf(a, head.cellIndex), orderOf(b, head.cellIndex)));
  body.append(...rows);
});

// A link into what is folded unfolds it.
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target?.closest("details");
  if (!folded) return;
  folded.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();
