// Line numbers are links. Only one of a file is a stop for the Tab key; from there the arrow keys go to the others.
(function () {
  "use strict";
  const main = document.querySelector(".wide");
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
    if (!event.target.matches("a.linenos") || !(event.key in STEPS) || event.altKey || event.ctrlKey || event.metaKey) return;
    const wanted = numbers.indexOf(event.target) + STEPS[event.key];
    numbers[Math.min(numbers.length - 1, Math.max(0, wanted))].focus();
    event.preventDefault();
  });
})();
