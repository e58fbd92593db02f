/* Every page: boxes that scroll are reachable by keyboard, and the site's map scrolls to the open page's line. */
(() => {
  const here = document.querySelector(".map [aria-current]");
  const map = here?.closest(".sidebar-sticky");
  if (map) {
    const [line, visible] = [here, map].map((element) => element.getBoundingClientRect());
    if (line.bottom > visible.bottom - 16) map.scrollTop += line.top - visible.top - visible.height / 2;
  }

  const BOXES = "pre, .drawing, .diagram, .table-wrapper, .math-wrapper, .toc-tree-container, .sidebar-sticky, .toc-sticky";

  const makeReachable = () => {
    for (const box of document.querySelectorAll(BOXES)) {
      const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (scrolls && !box.hasAttribute("tabindex")) box.tabIndex = 0;
    }
  };

  addEventListener("load", makeReachable);
  addEventListener("resize", makeReachable);
  document.addEventListener("toggle", makeReachable, true); // a box inside closed details has no width
})();
