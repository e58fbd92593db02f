// Cards: which questions the reader knew, kept in this browser only; and hints, one at a time.
(() => {
  "use strict";

  // ---- what is kept: {page: {card: "known" or "again"}}

  const NAME = "rankzero-cards";
  const WORDS = { known: "known", again: "to repeat" };
  let marks = {};
  let kept = true; // whether the browser lets us keep them; if not, they live as long as the page

  function read() {
    try {
      const found = Object.entries(JSON.parse(localStorage.getItem(NAME)) ?? {});
      marks = Object.fromEntries(found.filter(([, cards]) => typeof cards === "object" && cards));
    } catch (error) {
      kept = error instanceof SyntaxError;
    }
  }

  function change(edit) {
    if (kept) read(); // another window may have written
    edit();
    try {
      localStorage.setItem(NAME, JSON.stringify(marks));
    } catch {
      kept = false;
    }
    show();
  }

  function stateOf(page, card) {
    const state = marks[page]?.[card];
    return state in WORDS ? state : "";
  }

  // ---- what is shown. A chip is the link to a card in the list above the cards; it has the card's state.

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
    lead(total.querySelector(".deck-next"), next, next?.closest(".decks-list > li").querySelector(".deck-title").textContent);
  }

  function showChips({ head, page, chips }) {
    for (const chip of chips) {
      const state = stateOf(page, chip.dataset.card);
      chip.dataset.state = state;
      chip.setAttribute("aria-label", `Question ${chip.textContent}${state && `, ${WORDS[state]}`}`);
    }
    const count = chips.filter((chip) => chip.dataset.state === "known").length;
    setText(head.querySelector(".deck-count"), total ? `${count} of ${chips.length}` : countOf(chips));
  }

  function showCards({ head, chips, cards }) {
    const find = (state) => chips.find((chip) => chip.dataset.state === state);
    const begun = chips.some((chip) => chip.dataset.state);
    lead(head.querySelector(".deck-next"), begun ? (find("again") ?? find("")) : undefined);
    head.querySelector(".deck-over").hidden = !begun;
    cards.forEach((card, place) => {
      const state = chips[place].dataset.state;
      card.dataset.state = state;
      card.querySelector(".card-state").textContent = WORDS[state] ?? "";
      for (const button of card.querySelectorAll("[data-mark]")) {
        button.setAttribute("aria-pressed", String(button.dataset.mark === state));
      }
      const others = [...chips.slice(place + 1), ...chips.slice(0, place)];
      lead(card.querySelector(".card-next"), others.find((chip) => chip.dataset.state !== "known"));
    });
  }

  function countOf(chips) {
    const count = (state) => chips.filter((chip) => chip.dataset.state === state).length;
    const again = count("again") ? `, ${count("again")} to repeat` : "";
    const lost = kept ? "" : " (this browser keeps no marks: they last until you leave the page)";
    return `${count("known")} of ${chips.length} known${again}${lost}`;
  }

  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text; // a live region reads out what is set, even if it is the same
  }

  function lead(link, chip, title) {
    link.hidden = !chip;
    if (!chip) return;
    link.href = chip.href;
    const verb = chip.dataset.state === "again" ? "Repeat" : "Next:";
    link.textContent = `${verb} question ${chip.textContent}${title ? ` of “${title}”` : ""}`;
  }

  // ---- what the reader does

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
          const own = (marks[page] ??= {});
          if (own[card.dataset.card] === mark) delete own[card.dataset.card];
          else own[card.dataset.card] = mark;
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
    chips[0].focus(); // the button is gone
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

  // ---- hints

  for (const box of document.querySelectorAll("details.hints")) {
    const hints = [...(box.querySelector("ol")?.children ?? [])];
    if (hints.length < 2) continue;
    const more = make("button", "hint-more");
    more.type = "button";
    const count = () => {
      const left = hints.filter((hint) => hint.classList.contains("waiting")).length;
      more.textContent = `Next hint (${left} left)`;
      if (!left) more.remove();
    };
    more.addEventListener("click", () => {
      const next = hints.find((hint) => hint.classList.contains("waiting"));
      next.classList.remove("waiting");
      next.tabIndex = -1;
      next.focus(); // so that it is read out, and Tab goes on to the button
      count();
    });
    for (const hint of hints.slice(1)) hint.classList.add("waiting");
    box.append(more);
    count();
  }

  // ---- paper has no clicks

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("article details:not([open])")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
  });
})();
