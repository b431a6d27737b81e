
// Ask every second whether the page is old; what a reader has unfolded or hidden stays so.
const status = document.querySelector(".status");
const PAUSE = 1000; // milliseconds

function replaceMain(fresh) {
  const open = new Set();
  for (const detail of document.querySelectorAll("details[open] > summary")) open.add(detail.textContent);
  document.querySelector("main").replaceWith(fresh.querySelector("main"));
  for (const detail of document.querySelectorAll("details > summary")) {
    if (open.has(detail.textContent)) detail.parentElement.open = true;
  }
  document.title = fresh.title;
  showSeries();
}

async function follow() {
  try {
    const mark = await (await fetch("mark")).text();
    if (mark !== status.dataset.mark) {
      const text = await (await fetch(location.href)).text();
      const fresh = new DOMParser().parseFromString(text, "text/html");
      replaceMain(fresh);
      status.dataset.mark = fresh.querySelector(".status").dataset.mark;
    }
    status.textContent = "live";
    status.classList.remove("lost");
  } catch {
    // The command was ended: what is shown stays.
    status.textContent = "no longer live: fedstep watch has ended";
    status.classList.add("lost");
  }
  setTimeout(follow, PAUSE);
}
setTimeout(follow, PAUSE);
