// Quiz cards: the reader's marks, stored in this browser, and hints, shown one at a time.
(() => {
  "use strict";

  // ---- The stored marks: {page: {card: "known" or "again"}}

  const NAME = "rankzero-cards";
  const STATES = { known: "known", again: "to repeat" };
  let marks = {};
  let canStore = true; // false if the browser refuses to store the marks, which then last as long as the page is open

  function read() {
    try {
      const pages = Object.entries(JSON.parse(localStorage.getItem(NAME)) ?? {});
      marks = Object.fromEntries(pages.filter(([, cards]) => typeof cards === "object" && cards));
    } catch (error) {
      canStore = error instanceof SyntaxError;
    }
  }

  function change(edit) {
    if (canStore) read(); // another window may have changed the marks
    edit();
    try {
      localStorage.setItem(NAME, JSON.stringify(marks));
    } catch {
      canStore = false;
    }
    show();
  }

  function stateOf(page, card) {
    const state = marks[page]?.[card];
    return state in STATES ? state : "";
  }

  // ---- Cards and chips. A chip is the link to a card in the list above the cards; the chip shows the card's state.

  const decks = [...document.querySelectorAll(".deck")].map((head) => ({
    head,
    page: head.dataset.deck,
    chips: [...head.querySelectorAll(".deck-chips a")],
    cards: [...head.parentElement.querySelectorAll(".card")],
  }));
  const total = document.querySelector(".decks-total");

  function show() {
    for (const deck of decks) {
      showChips(deck);
      if (deck.cards.length) showCards(deck);
    }
    if (!total) return;
    const chips = decks.flatMap((deck) => deck.chips);
    const next = chips.find((chip) => chip.dataset.state === "again");
    setText(total.querySelector(".deck-count"), countOf(chips));
    const title = next?.closest(".decks-list > li").querySelector(".deck-title").textContent;
    setLink(total.querySelector(".deck-next"), next, title);
  }

  function showChips({ head, page, chips }) {
    for (const chip of chips) {
      const state = stateOf(page, chip.dataset.card);
      chip.dataset.state = state;
      chip.setAttribute("aria-label", `Question ${chip.textContent}${state && `, ${STATES[state]}`}`);
    }
    const count = chips.filter((chip) => chip.dataset.state === "known").length;
    setText(head.querySelector(".deck-count"), total ? `${count} of ${chips.length}` : countOf(chips));
  }

  function showCards({ head, chips, cards }) {
    const firstChip = (state) => chips.find((chip) => chip.dataset.state === state);
    const hasMarks = chips.some((chip) => chip.dataset.state);
    setLink(head.querySelector(".deck-next"), hasMarks ? (firstChip("again") ?? firstChip("")) : undefined);
    head.querySelector(".deck-over").hidden = !hasMarks;
    cards.forEach((card, index) => {
      const state = chips[index].dataset.state;
      card.dataset.state = state;
      card.querySelector(".card-state").textContent = STATES[state] ?? "";
      for (const button of card.querySelectorAll("[data-mark]")) {
        button.setAttribute("aria-pressed", String(button.dataset.mark === state));
      }
      const others = [...chips.slice(index + 1), ...chips.slice(0, index)];
      setLink(card.querySelector(".card-next"), others.find((chip) => chip.dataset.state !== "known"));
    });
  }

  function countOf(chips) {
    const count = (state) => chips.filter((chip) => chip.dataset.state === state).length;
    const again = count("again") ? `, ${count("again")} to repeat` : "";
    const warning = canStore ? "" : " (this browser stores no marks: your marks last until you leave the page)";
    return `${count("known")} of ${chips.length} known${again}${warning}`;
  }

  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text; // screen readers would read an equal text again
  }

  function setLink(link, chip, title) {
    link.hidden = !chip;
    if (!chip) return;
    link.href = chip.href;
    const verb = chip.dataset.state === "again" ? "Repeat" : "Next:";
    link.textContent = `${verb} question ${chip.textContent}${title ? ` of “${title}”` : ""}`;
  }

  // ---- The controls

  function addControls(page, card) {
    const state = make("span", "card-state");
    card.querySelector(".card-label").append(state);
    const row = make("div", "card-marks");
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "Did you know it?");
    for (const [mark, text] of [["known", "I knew it"], ["again", "Not yet"]]) {
      const button = make("button", "", text);
      button.type = "button";
      button.dataset.mark = mark;
      button.addEventListener("click", () =>
        change(() => {
          const pageMarks = (marks[page] ??= {});
          if (pageMarks[card.dataset.card] === mark) delete pageMarks[card.dataset.card];
          else pageMarks[card.dataset.card] = mark;
        }),
      );
      row.append(button);
    }
    row.append(make("a", "card-next"));
    card.querySelector("details").append(row);
  }

  function startOver({ head, page, chips, cards }) {
    change(() => delete marks[page]);
    for (const card of cards) card.querySelector("details").open = false;
    chips[0].focus(); // the button, which had the focus, is hidden now
  }

  function make(name, className, text = "") {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  }

  for (const deck of decks) {
    for (const card of deck.cards) addControls(deck.page, card);
    deck.head.querySelector(".deck-over")?.addEventListener("click", () => startOver(deck));
  }
  total?.querySelector(".deck-over").addEventListener("click", () => change(() => (marks = {})));
  total?.removeAttribute("hidden");
  read();
  show();
  for (const { head, cards } of decks) {
    if (cards.length) head.querySelector(".deck-count").setAttribute("role", "status");
  }
  addEventListener("storage", (event) => {
    if (event.key !== NAME && event.key !== null) return;
    read();
    show();
  });

  // ---- The hints

  for (const box of document.querySelectorAll("details.hints")) {
    const hints = [...(box.querySelector("ol")?.children ?? [])];
    if (hints.length < 2) continue;
    const more = make("button", "hint-more");
    more.type = "button";
    const showCount = () => {
      const remaining = hints.filter((hint) => hint.classList.contains("waiting")).length;
      more.textContent = `Next hint (${remaining} left)`;
      if (!remaining) more.remove();
    };
    more.addEventListener("click", () => {
      const next = hints.find((hint) => hint.classList.contains("waiting"));
      next.classList.remove("waiting");
      next.tabIndex = -1;
      next.focus(); // so that a screen reader reads the hint, and Tab moves on to the button
      showCount();
    });
    for (const hint of hints.slice(1)) hint.classList.add("waiting");
    box.append(more);
    showCount();
  }

  // ---- Printing: paper shows all boxes open

  let closedBoxes = [];
  addEventListener("beforeprint", () => {
    closedBoxes = [...document.querySelectorAll("article details:not([open])")];
    for (const box of closedBoxes) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of closedBoxes) box.open = false;
  });
})();
