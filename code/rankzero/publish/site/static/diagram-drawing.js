/* Diagram drawing: turns mermaid's source into pictures, whose colors are variables of the page's style sheet.
   Chromium runs this script while the site is built; if the site was built without Chromium, each page runs it.

   There is a picture for each of three widths, of which diagrams.css shows one. A flowchart from left to right that would
   be too small to read at a width runs from top to bottom. */
globalThis.rankzeroDiagrams = (() => {
  "use strict";
  const WIDTHS = { wide: 816, middle: 600, narrow: 358 }; // in pixels; diagrams.css has the widths of the figures
  const LEGIBLE = 0.76; // the smallest scale at which letters of 13 px are legible; a wider diagram scrolls in its box
  const [LONG, SHORT] = [140, 110]; // widths at which a label wraps, in pixels
  const FONT = '"Inter Variable", system-ui, sans-serif';
  const ID = "rankzero-diagram";

  // Mermaid computes with colors, so it gets these, and each is then replaced by a value that follows the theme.
  const [PAPER, BOX, RULE, INK, LINE, BORDER] = ["#fffef0", "#f6f4e0", "#e0dcd0", "#1d2320", "#4c5550", "#7b8580"];
  const [BRAND, TASK, NOTE, NOTE_BORDER, BAD, BAD_PAPER] =
    ["#0b5d60", "#c0d0d0", "#faf0d0", "#7a5200", "#a32620", "#fbe7e0"];
  const THEMED = {
    [PAPER]: "var(--color-background-primary)", [BOX]: "var(--color-background-secondary)",
    [RULE]: "var(--color-background-border)", [INK]: "var(--color-foreground-primary)",
    [LINE]: "var(--color-foreground-secondary)", [BORDER]: "var(--color-foreground-border)",
    [BRAND]: "var(--color-brand-primary)",
    [TASK]: "color-mix(in srgb, var(--color-brand-primary) 20%, var(--color-background-primary))",
    [NOTE]: "var(--unsure-soft)", [NOTE_BORDER]: "var(--unsure)", [BAD]: "var(--bad)", [BAD_PAPER]: "var(--bad-soft)",
  };
  const COLORS = {
    background: PAPER, textColor: INK, titleColor: INK, lineColor: LINE, primaryColor: BOX, primaryTextColor: INK,
    primaryBorderColor: BORDER, mainBkg: BOX, nodeBorder: BORDER, secondaryColor: BOX, tertiaryColor: PAPER,
    clusterBkg: PAPER, clusterBorder: BORDER, edgeLabelBackground: PAPER, actorBkg: BOX, actorBorder: BORDER,
    actorTextColor: INK, actorLineColor: BORDER, signalColor: LINE, signalTextColor: INK, noteBkgColor: NOTE,
    noteBorderColor: NOTE_BORDER, noteTextColor: INK, sectionBkgColor: BOX, altSectionBkgColor: PAPER,
    sectionBkgColor2: BOX, gridColor: RULE, taskBkgColor: TASK, taskBorderColor: BRAND, taskTextColor: INK,
    taskTextDarkColor: INK, taskTextOutsideColor: INK, critBkgColor: BAD_PAPER, critBorderColor: BAD,
    todayLineColor: "transparent",
  };

  function settings(source, width, wrappingWidth) {
    const sections = [...source.matchAll(/^\s*section (.*)$/gm)].map((match) => match[1].length);
    const participants = [...source.matchAll(/^\s*participant /gm)].length;
    const fonts = { messageFontFamily: FONT, noteFontFamily: FONT, actorFontFamily: FONT };
    const fontSizes = { messageFontSize: 13, noteFontSize: 13, actorFontSize: 13 };
    return {
      startOnLoad: false, suppressErrorRendering: true, theme: "base", look: "classic", fontFamily: FONT,
      themeVariables: { fontFamily: FONT, fontSize: "13px", ...COLORS },
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
        useMaxWidth: false, useWidth: Math.max(width - 12, 448), barHeight: 22, barGap: 5, topPadding: 50, fontSize: 12,
        sectionFontSize: 12, leftPadding: 7 * Math.max(0, ...sections) + 16, rightPadding: 8, gridLineStartPadding: 12,
      },
    };
  }

  /** In a sequence diagram, words of a message may cross a lifeline: paper behind them interrupts the line. */
  function putPaperBehindMessages(picture) {
    for (const words of picture.querySelectorAll(".messageText")) {
      const { x, y, width, height } = words.getBBox();
      const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const place = { class: "message-paper", x: x - 3, y, width: width + 6, height };
      for (const [name, value] of Object.entries(place)) paper.setAttribute(name, value);
      words.before(paper);
    }
  }

  const rendered = new Map(); // a flowchart does not depend on the width
  async function render(source, width, bench, wrappingWidth) {
    const isFlowchart = /^\s*flowchart/.test(source);
    const key = [source, wrappingWidth, isFlowchart || width].join();
    if (!rendered.has(key)) {
      mermaid.initialize(settings(source, width, wrappingWidth));
      rendered.set(key, (await mermaid.render(ID, source, bench)).svg);
    }
    bench.innerHTML = rendered.get(key);
    const picture = bench.querySelector("svg");
    putPaperBehindMessages(picture);
    let [left, top, naturalWidth, height] = picture.getAttribute("viewBox").split(" ").map(Number);
    if (/^\s*gantt/.test(source)) [top, height] = [top + 38, height - 64]; // mermaid leaves too much space at the axis
    if (!isFlowchart) [left, naturalWidth] = [left - 2, naturalWidth + 12]; // an axis's last label
    picture.setAttribute("viewBox", [left, top, naturalWidth, height].join(" "));
    picture.setAttribute("width", naturalWidth);
    picture.setAttribute("height", height);
    return { picture, naturalWidth };
  }

  /** The source of a flowchart in the other direction, or null for a diagram that is no flowchart. */
  function turned(source) {
    const opposite = { LR: "TB", TB: "LR", TD: "LR" };
    const match = source.match(/^\s*flowchart (LR|TB|TD)\b/);
    return match && source.replace(match[0], `flowchart ${opposite[match[1]]}`);
  }

  /** The picture in the direction that its source gives. If it is not legible in that direction, the narrower one of
      both directions. Labels wrap at LONG; if the picture is too wide, they wrap at SHORT. */
  async function fitting(source, width, bench) {
    const longLabels = await render(source, width, bench, LONG);
    if (longLabels.naturalWidth <= width || !turned(source)) return longLabels;
    const shortLabels = await render(source, width, bench, SHORT);
    const narrower = shortLabels.naturalWidth < longLabels.naturalWidth ? shortLabels : longLabels;
    if (narrower.naturalWidth * LEGIBLE <= width) return narrower;
    const turnedPicture = await render(turned(source), width, bench, SHORT);
    return turnedPicture.naturalWidth < narrower.naturalWidth ? turnedPicture : narrower;
  }

  /** Removes the rules, definitions and ids that the picture does not use: they are most of its bytes, and mermaid gives
      the same ids to the pictures of all widths. */
  function prune(picture) {
    const style = picture.querySelector("style");
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style.textContent);
    const used = ({ selectorText }) =>
      selectorText && (selectorText === `#${ID}` || picture.querySelector(selectorText.replaceAll(`#${ID} `, "")));
    style.textContent = [...sheet.cssRules].filter(used).map((rule) => rule.cssText).join("");
    for (const element of picture.querySelectorAll("marker, filter, symbol, linearGradient")) {
      if (!picture.outerHTML.includes(`#${element.id})`)) element.remove();
    }
    for (const defs of picture.querySelectorAll("defs:empty")) defs.remove();
    const text = picture.outerHTML;
    for (const element of picture.querySelectorAll("[id]")) {
      const isUsed = [`#${element.id})`, `"#${element.id}"`, `by="${element.id}"`].some((use) => text.includes(use));
      if (!isUsed) element.removeAttribute("id");
    }
  }

  /** A color of mermaid's, as the browser writes it, as a value that follows the theme. */
  function themed(color) {
    const [red, green, blue, alpha] = color.match(/[\d.]+/g).map(Number);
    const hex = [red, green, blue].map((channel) => channel.toString(16).padStart(2, "0")).join("");
    const value = THEMED[`#${hex}`];
    if (!value) throw new Error(`the color #${hex} of a diagram does not follow the theme`);
    return alpha === undefined ? value : `color-mix(in srgb, ${value} ${100 * alpha}%, transparent)`;
  }

  /** The picture as HTML: its rules are bound to a class, because a page that shows another page renames its ids. */
  function html(picture) {
    picture.setAttribute("role", "img");
    picture.setAttribute("class", ID);
    picture.style.cssText = `min-width: ${Math.floor(Number(picture.getAttribute("width")) * LEGIBLE)}px`;
    const style = picture.querySelector("style");
    style.textContent = style.textContent.replaceAll(`#${ID}`, `.${ID}`).replace(/(rgb|hsl)a?\([^)]*\)/g, themed);
    return picture.outerHTML;
  }

  /** The HTML of a diagram's pictures; a picture that is the same at two widths is there once. `name` begins all ids. */
  async function draw(source, name) {
    const bench = document.createElement("div"); // mermaid measures text in it
    bench.className = "diagram-bench";
    document.body.append(bench);
    const sizes = new Map(); // from HTML to the names of the widths
    try {
      for (const [size, width] of Object.entries(WIDTHS)) {
        const { picture } = await fitting(source, width, bench);
        prune(picture);
        const text = html(picture);
        sizes.set(text, [...(sizes.get(text) ?? []), size]);
      }
    } finally {
      bench.remove();
    }
    return Array.from(sizes, ([text, names]) => {
      const id = `${name}-${names[0]}`;
      return text.replaceAll(ID, id).replace(`class="${id}"`, `class="${id} ${names.join(" ")}"`);
    }).join("");
  }

  return { draw };
})();
