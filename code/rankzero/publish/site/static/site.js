/* What every page needs of a script: boxes that scroll, and on phones the two menus, can be reached by keyboard. */
(() => {
  const BOXES = "pre, .table-wrapper, .math-wrapper, .toc-tree-container, .sidebar-sticky, .toc-sticky";

  const reach = () => {
    for (const box of document.querySelectorAll(BOXES)) {
      const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (scrolls && !box.hasAttribute("tabindex")) box.tabIndex = 0;
    }
  };

  const MENUS = { ".nav-overlay-icon": "Site menu", ".toc-overlay-icon": "On this page" };
  for (const [menu, name] of Object.entries(MENUS)) {
    for (const label of document.querySelectorAll(menu)) {
      Object.assign(label, { role: "button", tabIndex: 0, ariaLabel: name });
      label.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        label.click();
      });
    }
  }

  addEventListener("load", reach);
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true); // what was folded has no width
})();
