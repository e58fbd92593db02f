// Claims: pointing at a badge, or stepping onto it with the keyboard, shows its note; a click, a tap or Enter steps into
// the note, and Escape leads back. The note itself waits in a <template> of the page.
(() => {
  "use strict";
  if (!("popover" in HTMLElement.prototype)) return; // then a badge stays a link to the table of claims

  const GAP = 8; // pixels between badge and note, and between note and window
  const WORDS = {
    holds: "A claim that holds.",
    fails: "A claim that fails.",
    "not-measured": "A claim that is not measured yet.",
  };
  const sheet = matchMedia("(max-width: 40rem)"); // there, the note is a sheet at the bottom: claim-badges.css

  const note = document.createElement("div");
  note.className = "claim-note";
  note.popover = "manual";
  note.tabIndex = -1;
  note.setAttribute("role", "dialog");
  note.setAttribute("aria-labelledby", "claim-note-statement");

  let badge = null; // whose note is shown
  let inside = false; // whether the reader stepped into it: then it stays until they leave
  let seen = false; // whether the badge has been in the window since
  let timer = 0;
  let quiet = false; // while focus is handed back to a badge

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

  // Closes, and puts the focus back on the badge if it was in the note.
  function leave() {
    const link = badge;
    const had = note.contains(document.activeElement);
    close();
    if (!had) return;
    quiet = true;
    link.focus({ preventScroll: true });
    quiet = false;
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

  // Above the badge, where the text has been read; else below it, else beside it; never outside the window.
  function place() {
    note.style.cssText = "";
    const at = badge.getClientRects()[0];
    if (sheet.matches) {
      const covered = at.bottom + GAP - note.getBoundingClientRect().top;
      if (covered > 0) window.scrollBy({ top: covered, behavior: "instant" });
      return;
    }
    const [wide, tall] = [document.documentElement.clientWidth - GAP, innerHeight - GAP];
    const [width, height] = [note.offsetWidth, note.offsetHeight];
    const within = (start, size, end) => `${Math.max(GAP, Math.min(start, end - size))}px`;
    note.style.left = within(at.left + (at.width - width) / 2, width, wide);
    if (at.top - height >= 2 * GAP) note.style.top = `${at.top - GAP - height}px`;
    else if (at.bottom + GAP + height <= tall) note.style.top = `${at.bottom + GAP}px`;
    else {
      note.style.left = at.right + GAP + width <= wide ? `${at.right + GAP}px` : within(at.left - GAP - width, width, wide);
      note.style.top = within(at.top + (at.height - height) / 2, height, tall);
    }
  }

  function follow() {
    if (!badge || sheet.matches) return;
    const at = badge.getBoundingClientRect();
    const out = at.bottom < 0 || at.top > innerHeight; // also before the window has scrolled to it
    if (out && seen) leave();
    else place();
    seen ||= !out;
  }

  async function copy(button) {
    const command = button.parentElement.querySelector("code");
    const said = button.parentElement.querySelector("[role=status]");
    try {
      await navigator.clipboard.writeText(command.textContent);
      said.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command); // where the clipboard is refused: one key is left to press
      said.textContent = "Selected";
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
    if (link && !quiet && link.matches(":focus-visible")) open(link, false);
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
    else if (event.target.closest("a")) close(); // also when it leads elsewhere on this page
  });
  // Tab beyond the note's ends goes on from the badge, as if the note stood beside it.
  note.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return;
    const stops = [...note.querySelectorAll("a[href], button")];
    const at = stops.indexOf(document.activeElement);
    if (event.shiftKey ? at > 0 : at < stops.length - 1) return;
    if (event.shiftKey) event.preventDefault();
    leave();
  });
  addEventListener("scroll", follow, { capture: true, passive: true });
  addEventListener("resize", follow);

  function describe() {
    document.body.append(note);
    for (const [name, words] of Object.entries(WORDS)) {
      const hidden = document.createElement("span");
      hidden.hidden = true;
      hidden.id = `claim-that-${name}`;
      hidden.textContent = words;
      document.body.append(hidden);
    }
    for (const link of document.querySelectorAll("a.claim")) {
      const name = Object.keys(WORDS).find((name) => link.classList.contains(name));
      link.setAttribute("aria-haspopup", "dialog");
      link.setAttribute("aria-expanded", "false");
      link.setAttribute("aria-describedby", `claim-that-${name}`);
    }
  }
  if (document.querySelector("a.claim")) describe();
})();
