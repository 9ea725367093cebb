"use strict";
// What the page does besides its charts: paper, theme, contents.
(() => {
  // On paper: light colours, one column, everything unfolded.
  function paper(on) {
    document.documentElement.classList.toggle("paper", on);
    for (const fold of document.querySelectorAll("details")) {
      if (on) {
        fold.dataset.wasOpen = String(fold.open);
        fold.open = true;
      } else if (fold.dataset.wasOpen) {
        fold.open = fold.dataset.wasOpen === "true";
      }
    }
    for (const one of drawings) one.redraw();
  }

  function followContents() {
    const links = new Map(
      [...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]),
    );
    const seen = new Set();
    const watch = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) seen.add(target.id);
        else seen.delete(target.id);
      }
      const first = [...links.keys()].find((id) => seen.has(id));
      for (const [id, link] of links) {
        if (id === first) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }, { rootMargin: "-10% 0px -60% 0px" });
    for (const id of links.keys()) watch.observe(document.getElementById(id));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const one of drawings) one.restyle();
  });
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  followContents();
})();
