// Shows a job as it goes on: the service says that something changed, and the page's own content is fetched again.
// Without this script the page loads itself anew from time to time.
"use strict";
(() => {
  const main = document.querySelector("main");
  const live = document.querySelector("[data-changes]");
  if (!main || !live || !window.EventSource) return;
  const source = new EventSource(live.dataset.changes);
  let busy = false, again = false;
  const update = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const open = new Set([...main.querySelectorAll("details[open][id]")].map((element) => element.id));
        for (const element of page.querySelectorAll("details[id]")) element.open = open.has(element.id);
        main.replaceChildren(...page.querySelector("main").childNodes);
        document.title = page.title;
      }
    } finally {
      busy = false;
      if (again) { again = false; update(); }
    }
  };
  source.addEventListener("change", update);
  source.addEventListener("end", () => { source.close(); update(); });
})();
