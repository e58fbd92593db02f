/* Schedules of the learning rate over 100 updates, by warm-up and by the length of WSD's decay. */
const SHAPES = Object.keys(data.shapes);
const UPDATES = Array.from({ length: 4 * data.updates + 1 }, (_, quarter) => quarter / 4);
const paint = (shape) => `var(--figure-${data.shapes[shape].slice(1)})`;
const percent = (share) => `${Math.round(100 * share)} %`;

/** Each schedule's rates at UPDATES, and the mean rate of its updates, in shares of the peak. */
function compute({ warmUp, decay }) {
  const ratesAt = (shape, updates) => updates.map((update) => rateShare(shape, update, warmUp, decay));
  const whole = UPDATES.filter((update) => Number.isInteger(update) && update < data.updates);
  const mean = (rates) => rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
  return {
    lines: Object.fromEntries(SHAPES.map((shape) => [shape, ratesAt(shape, UPDATES)])),
    means: Object.fromEntries(SHAPES.map((shape) => [shape, mean(ratesAt(shape, whole))])),
  };
}
const start = { warmUp: 10, decay: 20, shown: "all five" };

const explorable = {
  guess: {
    question: "All five lines start with 10 updates of warm-up. What is the mean rate of the 100 updates of the cosine, in percent of the peak?",
    unit: "%",
    answer: () => 100 * compute(start).means.cosine,
    why: "Without warm-up it is 50 %, as for the linear line. Warm-up takes a little from both, more from the cosine, which is higher in these updates.",
  },
  controls: [
    { name: "warmUp", label: "Warm-up", values: [1, 2, 5, 10, 15, 20, 30, 40, 50], show: (count) => `${count} update${count > 1 ? "s" : ""}` },
    { name: "decay", label: "WSD’s decay", values: [1, 5, 10, 15, 20, 30, 40, 60, 80, 100], show: (count) => `last ${count} update${count > 1 ? "s" : ""}` },
    { name: "shown", label: "Schedule", options: ["all five", ...SHAPES] },
  ],
  start,
  compute,

  draw({ warmUp, shown }, { lines }) {
    const names = SHAPES.filter((shape) => shown === "all five" || shown === shape);
    const points = names.flatMap((shape) => UPDATES.map((update, at) => ({ shape, update, rate: lines[shape][at] })));
    return [
      Explorables.legend(Object.fromEntries(names.map((shape) => [shape, paint(shape)]))),
      {
        height: 290,
        x: { label: "update", domain: [0, data.updates] },
        y: { label: "rate, in shares of the peak", domain: [0, 1], grid: true, ticks: 5 },
        marks: [
          Plot.ruleX([warmUp], { stroke: color.muted, strokeDasharray: "2 4" }),
          Plot.text([warmUp], { x: (update) => update, y: 0.03, text: ["warm-up ends"], textAnchor: "start", dx: 5, fill: color.muted }),
          Plot.line(points, { x: "update", y: "rate", z: "shape", stroke: ({ shape }) => paint(shape), strokeWidth: 2 }),
        ],
      },
    ];
  },

  says({ shown }, { means }) {
    const names = SHAPES.filter((shape) => shown === "all five" || shown === shape);
    return `Mean rate, in shares of the peak: ${names.map((shape) => `${shape} ${percent(means[shape])}`).join(", ")}.`;
  },
};
