/* Side-by-side pages: the right pane's switch between lab and starter, the divider, and restored scroll positions.
   The links between the panes work without this script. */
(() => {
  const reader = document.querySelector(".reader");
  if (!reader) return;
  const [left, right] = reader.querySelectorAll(".reader-pane");
  const panels = [...right.querySelectorAll(".reader-panel")];
  const tabs = [...reader.querySelectorAll('.reader-bar-right a[href^="#"]')];
  const wide = matchMedia("(width >= 1200px)");

  // Reads or writes a value in the browser's storage. Returns null if the browser refuses.
  const stored = (store, key, value) => {
    try {
      return value === undefined ? window[store].getItem(key) : window[store].setItem(key, value);
    } catch {
      return null;
    }
  };

  // --- The right pane shows the lab or its starter. The browser's search finds text in the hidden panel, too.

  const scrollTops = new Map(panels.map((panel) => [panel, 0]));
  const shown = () => panels.find((panel) => !panel.hidden);

  function show(panel) {
    if (!panels.includes(panel) || panel === shown()) return;
    if (wide.matches && shown()) scrollTops.set(shown(), right.scrollTop);
    panel.removeAttribute("hidden");
    for (const other of panels.filter((other) => other !== panel)) other.setAttribute("hidden", "until-found");
    if (wide.matches) right.scrollTop = scrollTops.get(panel);
    markTab();
  }

  const target = (hash) => document.getElementById(decodeURIComponent(hash.slice(1)));
  const reveal = (element) => element && show(element.closest("#reader-right .reader-panel"));

  for (const panel of panels) panel.addEventListener("beforematch", () => show(panel));

  // --- The current link in the bar is the innermost one whose target crosses a line near the top of the pane.

  function markTab() {
    const line = wide.matches ? right.getBoundingClientRect().top + 160 : innerHeight / 3;
    let current = null;
    for (const tab of tabs) {
      const part = tab.checkVisibility() && target(tab.hash);
      if (!part || (wide.matches && part.closest("[hidden]"))) continue;
      const box = part.getBoundingClientRect();
      if (box.top <= line && box.bottom > line) current = tab;
    }
    for (const tab of tabs) {
      tab === current ? tab.setAttribute("aria-current", "true") : tab.removeAttribute("aria-current");
    }
  }

  // --- Places. Each entry of the browser's history has the place of each pane: the id of the element at the pane's top
  // edge, and the pixels from the element's top to that edge.

  const placeOf = (pane) => {
    const top = pane.getBoundingClientRect().top;
    let element = pane === right ? shown() : pane.querySelector(".reader-panel");
    for (const candidate of element.querySelectorAll("section[id], tr[id]")) {
      const box = candidate.getBoundingClientRect();
      if (box.height && box.top <= top + 1) element = candidate;
    }
    return { id: element.id, above: top - element.getBoundingClientRect().top };
  };
  const scrollPane = (pane, to) => {
    const element = to && document.getElementById(to.id);
    if (element) pane.scrollTop += element.getBoundingClientRect().top - pane.getBoundingClientRect().top + to.above;
  };
  const savePlaces = () => {
    if (!wide.matches) return; // the browser saves the place of a page with one column
    history.replaceState({ reader: { left: placeOf(left), right: placeOf(right), panel: shown().id } }, "");
  };
  const restore = (state) => {
    if (!state?.reader || !wide.matches) return reveal(location.hash && target(location.hash));
    show(document.getElementById(state.reader.panel));
    scrollPane(left, state.reader.left);
    scrollPane(right, state.reader.right);
  };

  let saveTimer = 0;
  let markPending = false;
  function onScroll() {
    clearTimeout(saveTimer);
    saveTimer = setTimeout(savePlaces, 150);
    if (markPending) return;
    markPending = true;
    requestAnimationFrame(() => {
      markPending = false;
      markTab();
    });
  }
  for (const scroller of [left, right, window]) scroller.addEventListener("scroll", onScroll, { passive: true });
  addEventListener("popstate", (event) => restore(event.state));

  // A link to another chapter beside the same lab keeps the lab's place.
  const LAB_PLACE = "rankzero-reader-stay";
  function saveLabPlace(link) {
    if (link.origin !== location.origin || link.pathname === location.pathname || link.hash) return;
    const lab = reader.dataset.lab;
    if (link.pathname.split("/").pop().startsWith(`lab-${lab}-`) && link.pathname.includes("/read/")) {
      stored("sessionStorage", LAB_PLACE, JSON.stringify({ lab, right: placeOf(right), panel: shown().id }));
    }
  }
  function takeLabPlace() {
    const text = stored("sessionStorage", LAB_PLACE);
    stored("sessionStorage", LAB_PLACE, "");
    const state = text ? JSON.parse(text) : {};
    return state.lab === reader.dataset.lab ? { reader: state } : null;
  }

  reader.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    savePlaces();
    if (!link.getAttribute("href").startsWith("#")) return saveLabPlace(link);
    reveal(target(link.hash)); // then the browser scrolls to the target
  });

  // --- The divider.

  const divider = reader.querySelector(".reader-divider");
  const SPLIT = "rankzero-reader-split";
  function split(percent, store = true) {
    const rounded = Math.round(Math.min(75, Math.max(25, percent)));
    reader.style.setProperty("--split", rounded / 100);
    divider.setAttribute("aria-valuenow", rounded);
    if (store) stored("localStorage", SPLIT, rounded);
  }
  const percentNow = () => Number(divider.getAttribute("aria-valuenow"));
  divider.addEventListener("keydown", (event) => {
    const now = percentNow();
    const percent = { ArrowLeft: now - 2, ArrowRight: now + 2, Home: 25, End: 75, Enter: 50 }[event.key];
    if (percent === undefined) return;
    event.preventDefault();
    split(percent);
  });
  divider.addEventListener("dblclick", () => split(50));
  divider.addEventListener("pointerdown", (event) => {
    divider.setPointerCapture(event.pointerId);
    divider.classList.add("held");
    event.preventDefault();
  });
  divider.addEventListener("pointermove", (event) => {
    if (divider.classList.contains("held")) split((event.clientX / reader.clientWidth) * 100);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    divider.addEventListener(name, () => divider.classList.remove("held"));
  }

  // --- F6 moves the focus to the other pane; a button opens and closes the map.

  addEventListener("keydown", (event) => {
    if (event.key !== "F6" || !wide.matches) return;
    event.preventDefault();
    (left.contains(document.activeElement) ? right : left).focus({ preventScroll: true });
  });

  const map = reader.querySelector(".reader-map");
  const checkbox = document.getElementById("__navigation"); // Furo's: the map is open while it is checked
  const drawer = document.querySelector(".sidebar-drawer");
  const setOpen = (isOpen) => {
    checkbox.checked = isOpen;
    checkbox.dispatchEvent(new Event("change"));
  };
  map.hidden = false;
  map.addEventListener("click", () => {
    setOpen(!checkbox.checked);
    const link = drawer.querySelector("[aria-current]") ?? drawer.querySelector("a");
    if (checkbox.checked) link.focus({ preventScroll: true });
  });
  checkbox.addEventListener("change", () => map.setAttribute("aria-expanded", checkbox.checked));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !checkbox.checked) return;
    setOpen(false);
    map.focus();
  });

  // --- At the start.

  const saved = history.state?.reader ? history.state : location.hash ? null : takeLabPlace();
  split(Number(stored("localStorage", SPLIT)) || 50, false);
  show(panels[0]);
  panels[0].removeAttribute("hidden");
  for (const panel of panels.slice(1)) panel.setAttribute("hidden", "until-found");
  const restoreSaved = () => {
    restore(saved);
    if (!saved && location.hash) target(location.hash)?.scrollIntoView();
    markTab();
  };
  restoreSaved();
  if (saved) addEventListener("load", () => requestAnimationFrame(restoreSaved)); // after the browser's scroll
  wide.addEventListener("change", markTab);
})();
