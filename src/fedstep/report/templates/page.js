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

document.addEventListener("change", (event) => {
  const name = event.target.dataset.series;
  if (name === undefined) return;
  if (event.target.checked) hidden.delete(name);
  else hidden.add(name);
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
