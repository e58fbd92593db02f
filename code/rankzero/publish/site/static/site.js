/* What every page needs of a script: boxes that scroll can be reached and scrolled by keyboard, and the map shows where
   in it the page is. */
(() => {
  const here = document.querySelector(".map [aria-current]");
  const map = here?.closest(".sidebar-sticky");
  if (map) {
    const [place, room] = [here, map].map((one) => one.getBoundingClientRect());
    if (place.bottom > room.bottom - 16) map.scrollTop += place.top - room.top - room.height / 2;
  }

  const BOXES = "pre, .table-wrapper, .math-wrapper, .toc-tree-container, .sidebar-sticky, .toc-sticky";

  const reach = () => {
    for (const box of document.querySelectorAll(BOXES)) {
      const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (scrolls && !box.hasAttribute("tabindex")) box.tabIndex = 0;
    }
  };

  addEventListener("load", reach);
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true); // what was folded has no width
})();
