/* Diagrams of a site that was built without Chromium: each is drawn in the reader's browser. */
(async () => {
  "use strict";
  await document.fonts.load('13px "Inter Variable"').catch(() => {}); // mermaid measures text
  for (const [number, figure] of document.querySelectorAll("figure.diagram").entries()) {
    const source = figure.querySelector("pre");
    try {
      figure.insertAdjacentHTML("beforeend", await rankzeroDiagrams.draw(source.textContent, `diagram-${number}`));
    } catch (error) {
      source.hidden = false;
      console.error(error);
    }
  }
  dispatchEvent(new Event("resize")); // site.js makes the boxes that scroll reachable by keyboard
})();
