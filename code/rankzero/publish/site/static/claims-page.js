// Table of claims: a filter by text, verdict and page. Without JavaScript, the page shows the whole table.
(() => {
  "use strict";
  const rows = [...document.querySelectorAll(".claim-row")].map((body) => ({
    body,
    section: body.closest("section"),
    text: body.textContent.toLowerCase(),
    verdict: body.querySelector(".verdict").textContent,
  }));
  if (!rows.length) return;
  const sections = [...new Set(rows.map((row) => row.section))];
  const nameOf = (section) => section.querySelector("h2").firstChild.textContent.trim();

  const form = document.createElement("form");
  form.className = "claims-filter";
  form.autocomplete = "off";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Claims");
  const text = document.createElement("input");
  text.type = "search";
  const verdict = choice(["holds", "fails", "not measured"].filter((name) => rows.some((row) => row.verdict === name)));
  const page = choice(sections.map(nameOf));
  const clear = document.createElement("button");
  clear.type = "button";
  clear.textContent = "Clear";
  const count = document.createElement("output");
  form.append(
    labeled("Words, name or number", text),
    labeled("Verdict", verdict),
    labeled("Page", page),
    clear,
    count,
  );

  function choice(names) {
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...names.map((name) => new Option(name)));
    return select;
  }

  function labeled(name, control) {
    const [box, label] = [document.createElement("div"), document.createElement("label")];
    control.id = label.htmlFor = `claims-filter-${name.split(",")[0].toLowerCase()}`;
    label.textContent = name;
    box.append(label, control);
    return box;
  }

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const matches =
        (!verdict.value || row.verdict === verdict.value) &&
        (!page.value || nameOf(row.section) === page.value) &&
        words.every((word) => row.text.includes(word));
      row.body.hidden = !matches;
      shown += matches;
    }
    for (const section of sections) section.hidden = !section.querySelector(".claim-row:not([hidden])");
    count.value = shown === rows.length ? `${shown} claims` : `${shown} of ${rows.length} claims`;
  }

  // A link to a row that the filter hides clears the filter.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target?.closest("[hidden]")) return;
    showAll();
    target.scrollIntoView({ behavior: "instant" });
  }

  function showAll() {
    form.reset();
    filter();
  }

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  clear.addEventListener("click", showAll);
  addEventListener("hashchange", reveal);
  sections[0].before(form);
  filter();

  // The target of a link appears below the sticky filter.
  const measure = () => {
    const sticks = getComputedStyle(form).position === "sticky";
    const padding = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
    const margin = sticks ? `${form.offsetHeight + 4 - padding}px` : "";
    document.documentElement.style.setProperty("--claims-filter", margin);
  };
  new ResizeObserver(measure).observe(form);
  measure();
  const linked = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (linked) linked.scrollIntoView({ behavior: "instant" });
})();
