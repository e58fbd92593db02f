/* Side-by-side pages. Links between its panes work without this: it turns pages of the right pane, moves the divider, and
   keeps places when somebody reloads or goes back. */
(() => {
  const reader = document.querySelector(".reader");
  if (!reader) return;
  const [left, right] = reader.querySelectorAll(".reader-pane");
  const panels = [...right.querySelectorAll(".reader-panel")];
  const tabs = [...reader.querySelectorAll('.reader-bar-right a[href^="#"]')];
  const wide = matchMedia("(width >= 1200px)");

  // A browser may refuse to keep anything.
  const kept = (store, key, value) => {
    try {
      return value === undefined ? window[store].getItem(key) : window[store].setItem(key, value);
    } catch {
      return null;
    }
  };

  // --- The right pane shows the lab or its starter. Searching in the page finds what is not shown, too.

  const scrolled = new Map(panels.map((panel) => [panel, 0]));
  const shown = () => panels.find((panel) => !panel.hidden);

  function show(panel) {
    if (!panels.includes(panel) || panel === shown()) return;
    if (wide.matches && shown()) scrolled.set(shown(), right.scrollTop);
    for (const one of panels) one === panel ? one.removeAttribute("hidden") : one.setAttribute("hidden", "until-found");
    if (wide.matches) right.scrollTop = scrolled.get(panel);
    mark();
  }

  const target = (hash) => document.getElementById(decodeURIComponent(hash.slice(1)));
  const reveal = (element) => element && show(element.closest("#reader-right .reader-panel"));

  for (const panel of panels) panel.addEventListener("beforematch", () => show(panel));

  // --- Which link in the bar stands for what is read: the innermost whose target crosses a line near the top.

  function mark() {
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

  // --- Places. Each entry of the browser's history holds where both panes were: what is at the top, and how far above.

  const place = (pane) => {
    const top = pane.getBoundingClientRect().top;
    let found = pane === right ? shown() : pane.querySelector(".reader-panel");
    for (const one of found.querySelectorAll("section[id], tr[id]")) {
      const box = one.getBoundingClientRect();
      if (box.height && box.top <= top + 1) found = one;
    }
    return { id: found.id, above: top - found.getBoundingClientRect().top };
  };
  const put = (pane, at) => {
    const found = at && document.getElementById(at.id);
    if (found) pane.scrollTop += found.getBoundingClientRect().top - pane.getBoundingClientRect().top + at.above;
  };
  const remember = () => {
    if (!wide.matches) return; // the browser does it
    history.replaceState({ reader: { left: place(left), right: place(right), panel: shown().id } }, "");
  };
  const restore = (state) => {
    if (!state?.reader || !wide.matches) return reveal(location.hash && target(location.hash));
    show(document.getElementById(state.reader.panel));
    put(left, state.reader.left);
    put(right, state.reader.right);
  };

  let waiting = 0;
  let marking = false;
  function moved() {
    clearTimeout(waiting);
    waiting = setTimeout(remember, 150);
    if (marking) return;
    marking = true;
    requestAnimationFrame(() => {
      marking = false;
      mark();
    });
  }
  for (const scroller of [left, right, window]) scroller.addEventListener("scroll", moved, { passive: true });
  addEventListener("popstate", (event) => restore(event.state));

  // From one chapter to the next beside the same lab, the lab stays where it is.
  const STAY = "rankzero-reader-stay";
  function stay(link) {
    if (link.origin !== location.origin || link.pathname === location.pathname || link.hash) return;
    const lab = reader.dataset.lab;
    if (link.pathname.split("/").pop().startsWith(`lab-${lab}-`) && link.pathname.includes("/read/")) {
      kept("sessionStorage", STAY, JSON.stringify({ lab, right: place(right), panel: shown().id }));
    }
  }
  function stayed() {
    const found = kept("sessionStorage", STAY);
    kept("sessionStorage", STAY, "");
    const state = found ? JSON.parse(found) : {};
    return state.lab === reader.dataset.lab ? { reader: state } : null;
  }

  reader.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    remember();
    if (!link.getAttribute("href").startsWith("#")) return stay(link);
    reveal(target(link.hash)); // then the browser goes there
  });

  // --- The divider.

  const divider = reader.querySelector(".reader-divider");
  const SPLIT = "rankzero-reader-split";
  function split(percent, keep = true) {
    const within = Math.round(Math.min(75, Math.max(25, percent)));
    reader.style.setProperty("--split", within / 100);
    divider.setAttribute("aria-valuenow", within);
    if (keep) kept("localStorage", SPLIT, within);
  }
  const now = () => Number(divider.getAttribute("aria-valuenow"));
  divider.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: now() - 2, ArrowRight: now() + 2, Home: 25, End: 75, Enter: 50 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    split(to);
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
  for (const end of ["pointerup", "pointercancel"]) {
    divider.addEventListener(end, () => divider.classList.remove("held"));
  }

  // --- Keys, and the map.

  addEventListener("keydown", (event) => {
    if (event.key !== "F6" || !wide.matches) return;
    event.preventDefault();
    (left.contains(document.activeElement) ? right : left).focus({ preventScroll: true });
  });

  const map = reader.querySelector(".reader-map");
  const box = document.getElementById("__navigation");
  const drawer = document.querySelector(".sidebar-drawer");
  const open = (is) => {
    box.checked = is;
    box.dispatchEvent(new Event("change"));
  };
  map.hidden = false;
  map.addEventListener("click", () => {
    open(!box.checked);
    if (box.checked) (drawer.querySelector("[aria-current]") ?? drawer.querySelector("a")).focus({ preventScroll: true });
  });
  box.addEventListener("change", () => map.setAttribute("aria-expanded", box.checked));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked) return;
    open(false);
    map.focus();
  });

  // --- At the start.

  const before = history.state?.reader ? history.state : location.hash ? null : stayed();
  split(Number(kept("localStorage", SPLIT)) || 50, false);
  show(panels[0]);
  panels[0].removeAttribute("hidden");
  for (const panel of panels.slice(1)) panel.setAttribute("hidden", "until-found");
  const begin = () => {
    restore(before);
    if (!before && location.hash) target(location.hash)?.scrollIntoView();
    mark();
  };
  begin();
  if (before) addEventListener("load", () => requestAnimationFrame(begin)); // after the browser went to the anchor
  wide.addEventListener("change", mark);
})();
