/* Search dialog: a field and a list of links by page. It loads the index when it is first opened. */
(() => {
  "use strict";
  const ROOT = document.documentElement.dataset.content_root;
  const [MOST, MOST_PER_PAGE, SNIPPET] = [40, 5, 170];
  const HINT = "Chapters, labs, claims, notebooks and source files.";

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  // ---- The index is loaded as scripts: a page that was opened from a file can load no other data
  const loads = new Map();
  function load(file) {
    const start = (resolve, reject) =>
      document.head.append(make("script", { src: `${ROOT}_static/${file}`, onload: resolve, onerror: reject }));
    if (!loads.has(file)) loads.set(file, new Promise(start));
    return loads.get(file);
  }

  let data = null;
  async function ready() {
    await Promise.all(["minisearch/index.js", "search-ranking.js", "search-data.js"].map(load));
    const { index, ...rest } = rankzeroData;
    data ??= { ...rest, index: MiniSearch.loadJS(index, rankzeroIndex.options) };
  }
  const prepare = () => ready().catch(() => {}); // summary() reports that the index is missing

  // ---- The results
  function marked(text, hits, start = 0, end = text.length) {
    const pieces = [];
    let position = start;
    for (const word of hits.filter((word) => word.start >= start && word.end <= end)) {
      pieces.push(text.slice(position, word.start), make("mark", {}, text.slice(word.start, word.end)));
      position = word.end;
    }
    return [...pieces, text.slice(position, end)];
  }

  /** The excerpt of a text, from one space to another, with hits of the most different terms. */
  function snippet(text, hits) {
    const hitsAfter = (from) => hits.filter(({ start, end }) => start >= from && end <= from + SNIPPET);
    const termCount = (from) => new Set(hitsAfter(from).flatMap((word) => word.terms)).size;
    const starts = hits.map(({ start }) => Math.max(0, start - 40));
    const best = starts.reduce((first, next) => (termCount(next) > termCount(first) ? next : first), starts[0] ?? 0);
    const start = best && text.indexOf(" ", best) + 1;
    const cut = start + SNIPPET < text.length;
    const end = cut ? Math.max(text.lastIndexOf(" ", start + SNIPPET), start + SNIPPET / 2) : text.length;
    return [start ? "… " : "", ...marked(text, hits, start, end), cut ? " …" : ""];
  }

  function link({ entry: [page, anchor, title, text], terms }) {
    const found = encodeURIComponent([...terms].join(" ")); // mark() of the target page reads it
    const name = make("span", { className: "search-title" }, ...marked(title, rankzeroIndex.hits(title, terms)));
    const words = make("span", { className: "search-text" }, ...snippet(text, rankzeroIndex.hits(text, terms)));
    return make("a", { href: `${ROOT}${data.pages[page][0]}?found=${found}${anchor && `#${anchor}`}` }, name, words);
  }

  function groups(matches) {
    const byPage = new Map(matches.map(({ entry }) => [entry[0], []]));
    for (const match of matches) byPage.get(match.entry[0]).push(match);
    return Array.from(byPage, ([page, pageMatches]) => {
      const [, title, kind] = data.pages[page];
      const items = pageMatches.slice(0, MOST_PER_PAGE).map((match) => make("li", {}, link(match)));
      const more = pageMatches.length - items.length;
      if (more) items.push(make("li", { className: "search-more" }, `and ${more} more on this page`));
      const heading = make("h2", {}, make("span", { className: "search-kind" }, kind), " ", title);
      return make("section", {}, heading, make("ul", {}, ...items));
    });
  }

  const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

  /** The line above the results, in texts and links. */
  function summary(text, matches, shown) {
    if (!data) return ["The search index could not be loaded."];
    if (!text) return [HINT];
    if (!matches.length) {
      const map = make("a", { href: `${ROOT}handbook/README.html` }, "The map of topics");
      const places = `${data.entries.length.toLocaleString("en")} sections, claims and functions`;
      const searched = `${places} on ${counted(data.pages.length, "page")}`;
      return [`Nothing found for “${text}” in ${searched}. `, map, " lists every topic."];
    }
    const best = matches.length > MOST ? `, the best ${MOST}` : "";
    return [`${counted(matches.length, "place")}${best} on ${counted(shown.length, "page")}`];
  }

  async function search() {
    await prepare();
    const text = input.value.trim();
    const matches = data ? rankzeroIndex.find(data, text) : [];
    const shown = groups(matches.slice(0, MOST));
    results.replaceChildren(...shown);
    results.scrollTop = 0;
    count.replaceChildren(...summary(text, matches, shown));
  }

  // ---- The dialog
  const dialog = make("dialog", { className: "search", ariaLabel: "Search" });
  dialog.innerHTML = `
    <form role="search">
      <label class="search-label" for="search-input">Search the site</label>
      <input type="search" id="search-input" placeholder="all_reduce, warm-up, ZeRO-3, --resume" autocomplete="off"
        autocapitalize="off" spellcheck="false" enterkeyhint="go" aria-describedby="search-count">
      <button type="button" class="search-close">Close</button>
    </form>
    <p class="search-count" id="search-count" role="status">${HINT}</p>
    <div class="search-results"></div>
    <p class="search-keys"><kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>Enter</kbd> open <kbd>Esc</kbd> close</p>`;
  document.body.append(dialog);
  const [form, input, close, count, results] =
    ["form", "input", ".search-close", ".search-count", ".search-results"].map((name) => dialog.querySelector(name));

  function open() {
    if (dialog.open) return;
    dialog.showModal();
    input.focus();
    input.select();
    search();
  }

  /** Moves the focus up or down: from the field to the first link, from link to link, and back. */
  function move(step) {
    const stops = [input, ...results.querySelectorAll("a")];
    const next = stops[Math.min(Math.max(stops.indexOf(document.activeElement) + step, 0), stops.length - 1)];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  const plain = (event) => !event.ctrlKey && !event.metaKey && !event.altKey;

  /** Follows a link to a place on the open page without loading the page again. */
  function stay(event) {
    const target = event.target.closest("a");
    if (!target || !plain(event) || event.shiftKey || target.pathname !== location.pathname) return;
    event.preventDefault();
    dialog.close();
    const drawer = document.getElementById("__navigation");
    if (drawer) drawer.checked = false;
    location.hash = target.hash;
    if (!target.hash) scrollTo(0, 0);
    mark(new URL(target.href).searchParams.get("found"));
  }

  input.addEventListener("input", search);
  close.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  dialog.addEventListener("click", (event) => (event.target === dialog ? dialog.close() : stay(event)));
  dialog.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      event.preventDefault(); // by default, Escape clears the field first, and the dialog stays open
      dialog.close();
    } else if (event.target.matches("a") && /^[^ ]$/u.test(event.key) && plain(event)) {
      input.focus(); // the typed letter goes into the field
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    const slash = event.key === "/" && plain(event) && !typing;
    if (slash || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      open();
    } else if (event.key === "Escape" && !dialog.open) {
      CSS.highlights?.delete("found");
    }
  });
  for (const button of document.querySelectorAll("button.find")) {
    button.addEventListener("click", open);
    for (const name of ["pointerenter", "focus"]) button.addEventListener(name, prepare); // a click may follow
  }

  // ---- Marks: highlights the words in the section that a link of the search leads to, without changing the document
  async function mark(words) {
    if (!words || !CSS.highlights) return;
    await load("search-ranking.js");
    const terms = new Set(words.split(" "));
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const section = target?.closest("tr, tbody, section") ?? document.querySelector("article");
    const texts = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
    const highlight = new Highlight();
    while (texts.nextNode()) {
      const node = texts.currentNode;
      for (const { start, end } of rankzeroIndex.hits(node.data, terms)) {
        const range = { startContainer: node, startOffset: start, endContainer: node, endOffset: end };
        highlight.add(new StaticRange(range));
      }
    }
    CSS.highlights.set("found", highlight);
  }
  mark(new URLSearchParams(location.search).get("found"));
})();
