/* Explorables: a figure asks for a guess, then its picture gives way to a plot that sliders move.

   A script of handbook/explorables/ gives the question, the controls, the numbers of a setting and its plot. */

const Explorables = (() => {
  "use strict";
  const library = new URL("plot/plot.js", document.currentScript.src).href;
  const made = {};
  let loading = null;

  /** Loads Observable Plot, once. */
  const load = () => (loading ??= new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: library, onload: resolve, onerror: reject });
    document.head.append(script);
  }));

  /** An element with attributes, and with texts or elements as children. */
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const digits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
  const format = (number) => (Math.abs(number) < 1000 ? digits.format(number) : Math.round(number).toLocaleString("en-US"));
  const withUnit = (number, unit) => `${format(number)}${unit ? `\u00a0${unit}` : ""}`;

  // ------------------------------------------------------------------------------------------------------- the guess
  /** A form that asks `guess.question`: for a number of `guess.unit`, or for one of `guess.choices`. */
  function guessForm(id, { question, unit, choices }, answer) {
    const form = make("form", { class: "guess", "aria-labelledby": `${id}-question`, autocomplete: "off" });
    form.append(make("p", { id: `${id}-question` }, make("b", {}, "Guess first. "), question));
    const buttons = make("p", { class: "row" });
    if (choices) {
      for (const choice of choices) buttons.append(make("button", { type: "button", "data-choice": choice }, choice));
    } else {
      const input = make("input", { inputmode: "decimal", size: 8, "aria-labelledby": `${id}-question` });
      buttons.append(make("label", {}, input, ` ${unit}`), make("button", {}, "Compare"));
    }
    buttons.append(make("button", { type: "button", class: "skip" }, "No guess"));
    form.append(buttons, make("p", { class: "problem", role: "alert" }));
    form.addEventListener("click", ({ target }) => {
      if (target.dataset.choice) answer(target.dataset.choice);
      if (target.className === "skip") answer(null);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = form.querySelector("input").value.replaceAll(",", "");
      if (text.trim() && Number.isFinite(Number(text))) answer(Number(text));
      else form.querySelector(".problem").textContent = "Write a number, such as 12.";
    });
    return form;
  }

  function verdict({ answer, unit, why, choices }, guess) {
    const right = answer();
    const is = choices ? `Answer: ${right}. ` : `Answer: ${withUnit(right, unit)}. `;
    if (guess === null) return is + why;
    if (choices) return `${guess === right ? "Right." : `Your guess: ${guess}. ${is.trim()}`} ${why}`;
    const factor = Math.max(guess / right, right / guess);
    const off = factor > 0 && Number.isFinite(factor) ? `off by a factor of ${format(factor)}` : "far off";
    const close = guess === right || Math.abs(factor - 1) < 0.05;
    return `Your guess: ${withUnit(guess, unit)}, ${close ? "right" : off}. ${close ? "" : is}${why}`;
  }

  // ---------------------------------------------------------------------------------------------------- the controls
  /** A slider over `values`, shown with its `unit` or by the function `show`, or a list of `options`.
      `next` is the text of a button that moves the slider on. `sets` gives the values of other controls that follow from
      a new value. The drawing's buttons set a `hidden` control; its `samples` are for tests. */
  function control(id, { name, label, values, options, unit, show, next, hidden }, changed) {
    const field = `${id}-${name}`;
    if (hidden) {
      let kept;
      return { element: "", set: (value) => (kept = value), read: () => kept };
    }
    if (options) {
      const list = make("select", { id: field }, ...options.map((option) => make("option", {}, option)));
      list.addEventListener("change", changed);
      const element = make("div", { class: "control" }, make("label", { for: field }, label), list);
      return { element, set: (value) => (list.value = value), read: () => list.value };
    }
    const text = (value) => (show ? show(value) : withUnit(value, unit));
    const slider = make("input", { id: field, type: "range", min: 0, max: values.length - 1 });
    const output = make("output", { for: field });
    const tell = () => {
      output.textContent = text(values[slider.value]);
      slider.setAttribute("aria-valuetext", output.textContent);
    };
    slider.addEventListener("input", () => { tell(); changed(); });
    const element = make("div", { class: "control" }, make("label", { for: field }, label), output, slider);
    if (next) {
      const button = make("button", { type: "button" }, next);
      button.addEventListener("click", () => { slider.value = (Number(slider.value) + 1) % values.length; tell(); changed(); });
      element.append(button);
    }
    return {
      element,
      set(value) { slider.value = values.indexOf(value); tell(); },
      read: () => values[slider.value],
    };
  }

  // -------------------------------------------------------------------------------------------------------- the plot
  function plot(options, width) {
    if (options instanceof Node) return options;
    const x = { labelOffset: 40, ...options.x };
    const style = { fontSize: "13px", overflow: "visible" };
    const svg = Plot.plot({ width, marginTop: 26, marginBottom: 46, ...options, x, style });
    svg.setAttribute("aria-hidden", "true"); // the sentence below the controls says what it shows
    return svg;
  }

  /** Replaces the picture by the plot, the guess by the controls. */
  async function open(figure, id, explorable, panel, guess) {
    await load();
    const { controls, start, compute, draw, says } = explorable;
    const drawing = figure.querySelector(".drawing");
    const sentence = make("p", { class: "says", "aria-live": "polite" });
    const fields = controls.map((options, index) => control(id, options, () => {
      set(options.sets?.(fields[index].read()) ?? {}); // a control may set others
      update();
    }));
    const set = (setting) => Object.entries(setting).forEach(([name, value]) =>
      fields[controls.findIndex((options) => options.name === name)].set(value));
    const values = () => Object.fromEntries(controls.map(({ name }, index) => [name, fields[index].read()]));

    function update() {
      const setting = values();
      const numbers = compute(setting);
      const width = Math.max(280, panel.clientWidth);
      const plots = [draw(setting, numbers, width, change)].flat();
      const key = drawing.contains(document.activeElement) && document.activeElement.dataset.key;
      drawing.replaceChildren(...plots.map((options) => plot(options, width)));
      if (key) drawing.querySelector(`[data-key="${key}"]`)?.focus(); // a drawn button keeps the focus
      sentence.textContent = says(setting, numbers);
    }
    /** Sets a control, for buttons of the drawing. */
    function change(name, value) {
      set({ [name]: value });
      update();
    }
    function reset() {
      set(start);
      update();
    }

    const again = make("button", { type: "button", class: "reset" }, "Reset");
    again.addEventListener("click", reset);
    const answer = make("p", { class: "verdict", role: "status", tabindex: -1 });
    panel.replaceChildren(
      answer, make("div", { class: "controls" }, ...fields.map(({ element }) => element)), sentence, make("p", { class: "row" }, again),
    );
    figure.classList.add("moving");
    reset();
    answer.textContent = verdict(explorable.guess, guess);
    answer.focus({ preventScroll: true });
    let width = panel.clientWidth;
    new ResizeObserver(() => {
      if (panel.clientWidth !== width) update();
      width = panel.clientWidth;
    }).observe(panel);
  }

  function mount(figure, explorable) {
    const id = `explore-${figure.dataset.explorable}`;
    const panel = make("div", { class: "explorable" });
    panel.append(guessForm(id, explorable.guess, (guess) => open(figure, id, explorable, panel, guess)));
    figure.querySelector(".drawing").after(panel);
  }

  /** A line with the name of each color. */
  function legend(colors) {
    const names = Object.entries(colors).map(([name, color]) =>
      make("span", {}, make("i", { style: `background: ${color}` }), name));
    return make("p", { class: "legend", "aria-hidden": "true" }, ...names);
  }

  /** The ticks 1, 2 and 5 of each power of ten from `low` to `high`. */
  function logTicks(low, high) {
    const powers = Array.from({ length: 24 }, (_, index) => 10 ** (index - 6));
    return powers.flatMap((power) => [power, 2 * power, 5 * power]).filter((tick) => tick >= low && tick <= high);
  }

  return {
    made,
    legend,
    logTicks,
    format,
    withUnit,
    make,
    /** Makes an explorable of each figure of the page with one of the names. */
    add(names, create) {
      for (const name of names) {
        const figure = document.querySelector(`figure[data-explorable="${name}"]`);
        made[name] = create(name);
        if (figure) mount(figure, made[name]);
      }
    },
  };
})();
