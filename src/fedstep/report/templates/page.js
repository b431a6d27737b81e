for (const box of document.querySelectorAll("[data-series]")) {
  box.addEventListener("change", () => {
    for (const line of document.querySelectorAll("g.series")) {
      if (line.dataset.name === box.dataset.series) line.classList.toggle("hidden", !box.checked);
    }
  });
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
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
}
