// Claim badges: the notes of badges. Pointing at a badge, or moving the focus to it by keyboard, shows its note.
// A click, a tap or Enter moves the focus into the note, and Escape returns it to the badge. A <template> of the page
// has the note's content.
(() => {
  "use strict";
  if (!("popover" in HTMLElement.prototype)) return; // without popovers, a badge is a link to the table of claims

  const GAP = 8; // pixels between badge and note, and between note and window
  const DESCRIPTIONS = {
    holds: "A claim that holds.",
    fails: "A claim that fails.",
    "not-measured": "A claim that is not measured yet.",
  };
  const narrow = matchMedia("(max-width: 40rem)"); // in such a window, the note is at the bottom: claim-badges.css

  const note = document.createElement("div");
  note.className = "claim-note";
  note.popover = "manual";
  note.tabIndex = -1;
  note.setAttribute("role", "dialog");
  note.setAttribute("aria-labelledby", "claim-note-statement");

  let badge = null; // the badge with the open note
  let inside = false; // true after the reader entered the note, which then stays open until they leave it
  let seen = false; // true after the badge was inside the window with its note open
  let timer = 0;
  let returning = false; // true while the focus returns to a badge, which does not open the note again

  function badgeAt(target) {
    return target instanceof Element ? target.closest("a.claim") : null;
  }

  function templateOf(link) {
    return document.querySelector(`template[data-claim="${link.dataset.claim}"]`);
  }

  function open(link, stepIn) {
    clearTimeout(timer);
    if (badge !== link) {
      close();
      badge = link;
      seen = false;
      badge.setAttribute("aria-expanded", "true");
      note.replaceChildren(templateOf(link).content.cloneNode(true), closeButton());
      note.querySelector(".claim-statement").id = "claim-note-statement";
      note.showPopover();
      note.scrollTop = 0;
      place();
    }
    inside ||= stepIn;
    if (stepIn) note.focus({ preventScroll: true });
  }

  function close() {
    clearTimeout(timer);
    if (!badge) return;
    badge.setAttribute("aria-expanded", "false");
    badge = null;
    inside = false;
    note.hidePopover();
  }

  // Closes the note. Returns the focus to the badge if the focus was in the note.
  function leave() {
    const link = badge;
    const hadFocus = note.contains(document.activeElement);
    close();
    if (!hadFocus) return;
    returning = true;
    link.focus({ preventScroll: true });
    returning = false;
  }

  function closeButton() {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "claim-close";
    button.textContent = "×";
    button.setAttribute("aria-label", "Close");
    button.addEventListener("click", leave);
    return button;
  }

  // Places the note above the badge, whose text has been read; without room there, below or beside the badge; always
  // inside the window.
  function place() {
    note.style.cssText = "";
    const box = badge.getClientRects()[0];
    if (narrow.matches) {
      const covered = box.bottom + GAP - note.getBoundingClientRect().top;
      if (covered > 0) window.scrollBy({ top: covered, behavior: "instant" });
      return;
    }
    const [right, bottom] = [document.documentElement.clientWidth - GAP, innerHeight - GAP];
    const [width, height] = [note.offsetWidth, note.offsetHeight];
    const within = (start, size, end) => `${Math.max(GAP, Math.min(start, end - size))}px`;
    note.style.left = within(box.left + (box.width - width) / 2, width, right);
    if (box.top - height >= 2 * GAP) note.style.top = `${box.top - GAP - height}px`;
    else if (box.bottom + GAP + height <= bottom) note.style.top = `${box.bottom + GAP}px`;
    else {
      const fits = box.right + GAP + width <= right;
      note.style.left = fits ? `${box.right + GAP}px` : within(box.left - GAP - width, width, right);
      note.style.top = within(box.top + (box.height - height) / 2, height, bottom);
    }
  }

  function follow() {
    if (!badge || narrow.matches) return;
    const box = badge.getBoundingClientRect();
    const outside = box.bottom < 0 || box.top > innerHeight; // also true before the window has scrolled to the badge
    if (outside && seen) leave();
    else place();
    seen ||= !outside;
  }

  async function copy(button) {
    const command = button.parentElement.querySelector("code");
    const status = button.parentElement.querySelector("[role=status]");
    try {
      await navigator.clipboard.writeText(command.textContent);
      status.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command); // the browser refused the clipboard: the reader can copy the selection
      status.textContent = "Selected";
    }
  }

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = badgeAt(event.target);
    if (link && link !== badge && !inside) {
      clearTimeout(timer);
      timer = setTimeout(open, 120, link, false);
    } else if (link === badge || note.contains(event.target)) {
      clearTimeout(timer);
    }
  });
  document.addEventListener("pointerout", (event) => {
    if (event.pointerType === "touch" || inside) return;
    if (badgeAt(event.target) || note.contains(event.target)) {
      clearTimeout(timer);
      timer = setTimeout(close, 250);
    }
  });
  document.addEventListener("focusin", (event) => {
    const link = badgeAt(event.target);
    if (link && !returning && link.matches(":focus-visible")) open(link, false);
    else if (note.contains(event.target)) inside = true;
  });
  document.addEventListener("focusout", (event) => {
    if (badge && badgeAt(event.target) === badge && !note.contains(event.relatedTarget)) close();
  });
  document.addEventListener("pointerdown", (event) => {
    if (badge && !note.contains(event.target) && badgeAt(event.target) !== badge) close();
  });
  document.addEventListener("click", (event) => {
    const link = badgeAt(event.target);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (link === badge && inside) leave();
    else open(link, true);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && badge) {
      event.preventDefault();
      leave();
    }
  });
  note.addEventListener("click", (event) => {
    if (event.target.closest(".claim-command button")) copy(event.target);
    else if (event.target.closest("a")) close(); // also for a link to another place on this page
  });
  // Tab beyond the note's first or last link or button continues from the badge, as if the note followed the badge.
  note.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return;
    const stops = [...note.querySelectorAll("a[href], button")];
    const index = stops.indexOf(document.activeElement);
    if (event.shiftKey ? index > 0 : index < stops.length - 1) return;
    if (event.shiftKey) event.preventDefault();
    leave();
  });
  addEventListener("scroll", follow, { capture: true, passive: true });
  addEventListener("resize", follow);

  function addDescriptions() {
    document.body.append(note);
    for (const [name, description] of Object.entries(DESCRIPTIONS)) {
      const hidden = document.createElement("span");
      hidden.hidden = true;
      hidden.id = `claim-that-${name}`;
      hidden.textContent = description;
      document.body.append(hidden);
    }
    for (const link of document.querySelectorAll("a.claim")) {
      const name = Object.keys(DESCRIPTIONS).find((name) => link.classList.contains(name));
      link.setAttribute("aria-haspopup", "dialog");
      link.setAttribute("aria-expanded", "false");
      link.setAttribute("aria-describedby", `claim-that-${name}`);
    }
  }
  if (document.querySelector("a.claim")) addDescriptions();
})();
