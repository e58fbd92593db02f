/* Draws the page's diagrams with mermaid, in the page's colors and type: again when its theme changes, or the room that a
   diagram has. A chart from left to right that would become too small to read runs from top to bottom instead. */
(() => {
  "use strict";
  const LEGIBLE = 0.76; // how far letters of 13 px may shrink; what is wider still scrolls within its box
  const [LONG, SHORT] = [140, 110]; // lines of labels, in pixels
  const FONT = '"Inter Variable", system-ui, sans-serif';
  const figures = [...document.querySelectorAll("figure.diagram")];
  let number = 0;

  const color = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

  /** A color between two, as #rrggbb: mermaid cannot read what CSS mixes. */
  function between(one, other, share) {
    const channel = (hex, at) => parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16);
    const mixed = [0, 1, 2].map((at) => Math.round(channel(one, at) * share + channel(other, at) * (1 - share)));
    return "#" + mixed.map((value) => value.toString(16).padStart(2, "0")).join("");
  }

  function colors() {
    const [paper, box, rule, ink, line, border, brand] = [
      ...["background-primary", "background-secondary", "background-border"],
      ...["foreground-primary", "foreground-secondary", "foreground-border", "brand-primary"],
    ].map((name) => color(`--color-${name}`));
    const task = between(brand, paper, 0.2);
    const axis = { titleColor: ink, labelColor: line, tickColor: border, lineColor: border };
    const axes = ["x", "y"].flatMap((one) =>
      Object.entries(axis).map(([key, value]) => [`${one}Axis${key[0].toUpperCase()}${key.slice(1)}`, value]));
    return {
      fontFamily: FONT, fontSize: "13px", background: paper, textColor: ink, titleColor: ink, lineColor: line,
      primaryColor: box, primaryTextColor: ink, primaryBorderColor: border, mainBkg: box, nodeBorder: border,
      secondaryColor: box, tertiaryColor: paper, clusterBkg: paper, clusterBorder: border, edgeLabelBackground: paper,
      actorBkg: box, actorBorder: border, actorTextColor: ink, actorLineColor: border, signalColor: line,
      signalTextColor: ink, noteBkgColor: color("--unsure-soft"), noteBorderColor: color("--unsure"), noteTextColor: ink,
      sectionBkgColor: box, altSectionBkgColor: paper, sectionBkgColor2: box, gridColor: rule, taskBkgColor: task,
      taskBorderColor: brand, taskTextColor: ink, taskTextDarkColor: ink, taskTextOutsideColor: ink,
      critBkgColor: color("--bad-soft"), critBorderColor: color("--bad"), todayLineColor: "transparent",
      xyChart: {
        backgroundColor: paper, titleColor: ink, plotColorPalette: `${brand},${color("--bad")}`,
        ...Object.fromEntries(axes),
      },
    };
  }

  function settings(source, width, wrappingWidth) {
    const sections = [...source.matchAll(/^\s*section (.*)$/gm)].map((found) => found[1].length);
    const people = [...source.matchAll(/^\s*participant /gm)].length;
    const wide = Math.max(width - 12, 448);
    const type = { messageFontFamily: FONT, noteFontFamily: FONT, actorFontFamily: FONT };
    const sizes = { messageFontSize: 13, noteFontSize: 13, actorFontSize: 13 };
    return {
      startOnLoad: false, suppressErrorRendering: true, theme: "base", look: "classic", fontFamily: FONT,
      themeVariables: colors(),
      flowchart: {
        useMaxWidth: false, padding: 8, minNodeWidth: 0, wrappingWidth, nodeSpacing: 22, rankSpacing: 26,
        diagramPadding: 2, inheritDir: true, subGraphTitleMargin: { top: 2, bottom: 6 },
      },
      sequence: {
        useMaxWidth: false, mirrorActors: false, wrap: true, height: 36, actorMargin: 40, messageMargin: 26,
        width: Math.min(210, Math.max(100, width / people - 60)), diagramMarginX: 2, diagramMarginY: 10, noteMargin: 8,
        boxMargin: 8, ...type, ...sizes,
      },
      gantt: {
        useMaxWidth: false, useWidth: wide, barHeight: 22, barGap: 5, topPadding: 50, fontSize: 12, sectionFontSize: 12,
        leftPadding: 7 * Math.max(0, ...sections) + 16, rightPadding: 8, gridLineStartPadding: 12,
      },
      xyChart: {
        useMaxWidth: false, width: wide, height: Math.round(wide / 2), titlePadding: 8, titleFontSize: wide < 600 ? 12 : 14,
      },
    };
  }

  async function render(source, width, bench, lines) {
    mermaid.initialize(settings(source, width, lines));
    const { svg } = await mermaid.render(`diagram-${number++}`, source, bench);
    const drawn = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
    let [left, top, natural, height] = drawn.getAttribute("viewBox").split(" ").map(Number);
    if (/^\s*gantt/.test(source)) [top, height] = [top + 38, height - 64]; // it leaves more than its axis needs
    if (!/^\s*flowchart/.test(source)) [left, natural] = [left - 2, natural + 12]; // the last label of an axis stands out
    drawn.setAttribute("viewBox", [left, top, natural, height].join(" "));
    return { drawn, natural, height };
  }

  /** The same chart in the other direction, or null if it is no chart with one. */
  function turned(source) {
    const other = { LR: "TB", TB: "LR", TD: "LR" };
    const found = source.match(/^\s*flowchart (LR|TB|TD)\b/);
    return found && source.replace(found[0], `flowchart ${other[found[1]]}`);
  }

  /** The picture in the direction that its source gives, or in the other if only that can be read. Labels are broken into
      short lines where long ones leave no room. */
  async function fitting(source, width) {
    const bench = document.createElement("div"); // where mermaid measures
    bench.className = "diagram-bench";
    document.body.append(bench);
    try {
      const roomy = await render(source, width, bench, LONG);
      if (roomy.natural <= width || !turned(source)) return roomy;
      const close = await render(source, width, bench, SHORT);
      const first = close.natural < roomy.natural ? close : roomy;
      if (first.natural * LEGIBLE <= width) return first;
      const second = await render(turned(source), width, bench, SHORT);
      return second.natural < first.natural ? second : first;
    } finally {
      bench.remove();
    }
  }

  async function draw(figure) {
    const width = figure.clientWidth;
    if (!width) return; // it is in a part of the page that is closed: it is drawn when it gets some room
    const { drawn, natural, height } = await fitting(figure.querySelector("pre").textContent, width);
    drawn.setAttribute("role", "img");
    drawn.setAttribute("width", natural);
    drawn.setAttribute("height", height);
    drawn.style.cssText = `min-width: ${Math.floor(natural * LEGIBLE)}px`;
    figure.querySelector("svg")?.remove();
    figure.append(drawn);
    figure.style.minHeight = 0;
    figure.removeAttribute("tabindex");
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0; // so that the keyboard can scroll it
    figure.dataset.width = width;
  }

  let last = document.fonts.load(`13px ${FONT}`).catch(() => {}); // one at a time: mermaid's settings are global
  function ask(figure) {
    last = last.then(() => draw(figure)).catch((error) => {
      figure.querySelector("pre").hidden = false;
      console.error(error);
    });
  }
  const again = () => figures.forEach(ask);

  const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (target.clientWidth !== Number(target.dataset.width)) ask(target);
  }));
  figures.forEach((figure) => observer.observe(figure));
  new MutationObserver(again).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
