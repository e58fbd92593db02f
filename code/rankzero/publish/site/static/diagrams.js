/* Diagrams: drawn with mermaid in the page's colors and fonts, and drawn again when theme or width change.
   A flowchart from left to right that would be too small to read runs from top to bottom. */
(() => {
  "use strict";
  const LEGIBLE = 0.76; // the smallest scale at which letters of 13 px are legible; a wider diagram scrolls in its box
  const [LONG, SHORT] = [140, 110]; // widths at which a label wraps, in pixels
  const FONT = '"Inter Variable", system-ui, sans-serif';
  const figures = [...document.querySelectorAll("figure.diagram")];
  let number = 0;

  const color = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

  /** A mixture of two colors as #rrggbb: mermaid cannot parse CSS's color-mix(). */
  function mix(first, second, share) {
    const channel = (hex, at) => parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16);
    const mixed = [0, 1, 2].map((at) => Math.round(channel(first, at) * share + channel(second, at) * (1 - share)));
    return "#" + mixed.map((value) => value.toString(16).padStart(2, "0")).join("");
  }

  function colors() {
    const [paper, box, rule, ink, line, border, brand] = [
      ...["background-primary", "background-secondary", "background-border"],
      ...["foreground-primary", "foreground-secondary", "foreground-border", "brand-primary"],
    ].map((name) => color(`--color-${name}`));
    const task = mix(brand, paper, 0.2);
    const axis = { titleColor: ink, labelColor: line, tickColor: border, lineColor: border };
    const axes = ["x", "y"].flatMap((letter) =>
      Object.entries(axis).map(([key, value]) => [`${letter}Axis${key[0].toUpperCase()}${key.slice(1)}`, value]));
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
    const sections = [...source.matchAll(/^\s*section (.*)$/gm)].map((match) => match[1].length);
    const participants = [...source.matchAll(/^\s*participant /gm)].length;
    const plotWidth = Math.max(width - 12, 448);
    const fonts = { messageFontFamily: FONT, noteFontFamily: FONT, actorFontFamily: FONT };
    const fontSizes = { messageFontSize: 13, noteFontSize: 13, actorFontSize: 13 };
    return {
      startOnLoad: false, suppressErrorRendering: true, theme: "base", look: "classic", fontFamily: FONT,
      themeVariables: colors(),
      flowchart: {
        useMaxWidth: false, padding: 8, minNodeWidth: 0, wrappingWidth, nodeSpacing: 22, rankSpacing: 26,
        diagramPadding: 2, inheritDir: true, subGraphTitleMargin: { top: 2, bottom: 6 },
      },
      sequence: {
        useMaxWidth: false, mirrorActors: false, wrap: true, height: 36, actorMargin: 40, messageMargin: 26,
        width: Math.min(210, Math.max(100, width / participants - 60)), diagramMarginX: 2, diagramMarginY: 10,
        noteMargin: 8, boxMargin: 8, ...fonts, ...fontSizes,
      },
      gantt: {
        useMaxWidth: false, useWidth: plotWidth, barHeight: 22, barGap: 5, topPadding: 50, fontSize: 12,
        sectionFontSize: 12, leftPadding: 7 * Math.max(0, ...sections) + 16, rightPadding: 8, gridLineStartPadding: 12,
      },
      xyChart: {
        useMaxWidth: false, width: plotWidth, height: Math.round(plotWidth / 2), titlePadding: 8,
        titleFontSize: plotWidth < 600 ? 12 : 14,
      },
    };
  }

  async function render(source, width, bench, wrappingWidth) {
    mermaid.initialize(settings(source, width, wrappingWidth));
    const { svg } = await mermaid.render(`diagram-${number++}`, source, bench);
    const drawn = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
    let [left, top, naturalWidth, height] = drawn.getAttribute("viewBox").split(" ").map(Number);
    if (/^\s*gantt/.test(source)) [top, height] = [top + 38, height - 64]; // mermaid leaves too much space at the axis
    if (!/^\s*flowchart/.test(source)) [left, naturalWidth] = [left - 2, naturalWidth + 12]; // an axis's last label
    drawn.setAttribute("viewBox", [left, top, naturalWidth, height].join(" "));
    return { drawn, naturalWidth, height };
  }

  /** The source of a flowchart in the other direction, or null for a diagram that is no flowchart. */
  function turned(source) {
    const opposite = { LR: "TB", TB: "LR", TD: "LR" };
    const match = source.match(/^\s*flowchart (LR|TB|TD)\b/);
    return match && source.replace(match[0], `flowchart ${opposite[match[1]]}`);
  }

  /** The picture in the direction that its source gives. If it is not legible in that direction, the narrower one of
      both directions. Labels wrap at LONG; if the picture is too wide, they wrap at SHORT. */
  async function fitting(source, width) {
    const bench = document.createElement("div"); // mermaid measures text in it
    bench.className = "diagram-bench";
    document.body.append(bench);
    try {
      const longLabels = await render(source, width, bench, LONG);
      if (longLabels.naturalWidth <= width || !turned(source)) return longLabels;
      const shortLabels = await render(source, width, bench, SHORT);
      const narrower = shortLabels.naturalWidth < longLabels.naturalWidth ? shortLabels : longLabels;
      if (narrower.naturalWidth * LEGIBLE <= width) return narrower;
      const turnedPicture = await render(turned(source), width, bench, SHORT);
      return turnedPicture.naturalWidth < narrower.naturalWidth ? turnedPicture : narrower;
    } finally {
      bench.remove();
    }
  }

  async function draw(figure) {
    const width = figure.clientWidth;
    if (!width) return; // the figure is in a closed part of the page; the observer below draws it when that part opens
    const { drawn, naturalWidth, height } = await fitting(figure.querySelector("pre").textContent, width);
    drawn.setAttribute("role", "img");
    drawn.setAttribute("width", naturalWidth);
    drawn.setAttribute("height", height);
    drawn.style.cssText = `min-width: ${Math.floor(naturalWidth * LEGIBLE)}px`;
    figure.querySelector("svg")?.remove();
    figure.append(drawn);
    figure.style.minHeight = 0;
    figure.removeAttribute("tabindex");
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0; // so that the keyboard can scroll it
    figure.dataset.width = width;
  }

  let queue = document.fonts.load(`13px ${FONT}`).catch(() => {}); // one at a time: mermaid's settings are global
  function enqueue(figure) {
    queue = queue.then(() => draw(figure)).catch((error) => {
      figure.querySelector("pre").hidden = false;
      console.error(error);
    });
  }
  const redrawAll = () => figures.forEach(enqueue);

  const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (target.clientWidth !== Number(target.dataset.width)) enqueue(target);
  }));
  figures.forEach((figure) => observer.observe(figure));
  new MutationObserver(redrawAll).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
})();
