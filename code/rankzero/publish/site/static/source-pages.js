// Source pages: line numbers are links. The Tab key stops at one per file; from there, arrow keys move to others.
(function () {
  "use strict";
  const main = document.querySelector("div.wide");
  const numbers = main ? Array.from(main.querySelectorAll("a.linenos")) : [];
  if (!numbers.length) return;
  let current = numbers[0];
  numbers.forEach((number) => { number.tabIndex = number === current ? 0 : -1; });
  const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
  main.addEventListener("focusin", (event) => {
    if (!event.target.matches("a.linenos")) return;
    current.tabIndex = -1;
    current = event.target;
    current.tabIndex = 0;
  });
  main.addEventListener("keydown", (event) => {
    if (!event.target.matches("a.linenos") || !(event.key in STEPS)) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const index = numbers.indexOf(event.target) + STEPS[event.key];
    numbers[Math.min(numbers.length - 1, Math.max(0, index))].focus();
    event.preventDefault();
  });
})();
