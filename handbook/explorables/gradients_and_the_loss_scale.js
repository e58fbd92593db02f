/* Lab 03's gradients over fp16's range, moved by the loss scale. */
const PAINT = { zero: color.gray, subnormal: color.orange, normal: color.blue, inf: color.ink };
const PARTS = Object.keys(PAINT);
const start = { scale: 0 };

/** The histogram after scaling by 2^scale, and the percentage of gradients in each part of fp16's range. */
function compute({ scale }) {
  const bars = data.map(([power, share]) => ({ power: power + scale, share, part: partOfFp16(power + scale) }));
  const sums = Object.fromEntries(PARTS.map((part) => [part, 0]));
  for (const { part, share } of bars) sums[part] += share;
  return { bars, sums };
}

const explorable = {
  guess: {
    question: "Lab 03 may multiply its loss, and so its gradients, by a power of two. What is the largest exponent at which no gradient of this batch becomes inf in fp16?",
    unit: "",
    answer: () => Math.max(...Array.from({ length: 41 }, (_, scale) => scale).filter((scale) => compute({ scale }).sums.inf === 0)),
    why: "fp16 ends at 65,504, just below 2¹⁶. The largest gradients of the batch, in the histogram’s right bar, reach that line last.",
  },
  controls: [{ name: "scale", label: "Loss scale", values: Array.from({ length: 31 }, (_, power) => power), show: (power) => (2 ** power).toLocaleString("en-US") }],
  start,
  compute,

  draw(_, { bars }) {
    return [
      Explorables.legend({ "becomes 0": PAINT.zero, subnormal: PAINT.subnormal, normal: PAINT.normal, "becomes inf": PAINT.inf }),
      {
        height: 270,
        x: { domain: [-37, 32], label: "magnitude, as a power of two", ticks: [-32, -25, -14, 0, 16, 30], tickFormat: (power) => `${power}`.replace("-", "−") },
        y: { label: "% of gradients", domain: [0, 20], grid: true, ticks: 5 },
        marks: [
          Plot.ruleX([-25, -14, 16], { stroke: color.muted, strokeDasharray: "2 4" }),
          Plot.rect(bars, { x1: "power", x2: ({ power }) => power + 1, y1: 0, y2: "share", fill: ({ part }) => PAINT[part], inset: 0.5, clip: true }),
        ],
      },
    ];
  },

  says({ scale }, { sums }) {
    const share = (part) => `${sums[part].toFixed(sums[part] < 1 ? 2 : 0)} %`;
    return `Loss times ${(2 ** scale).toLocaleString("en-US")}: ${share("zero")} of the gradients become 0, ${share("subnormal")} are subnormal ` +
      `and lose digits, ${share("normal")} are normal, ${share("inf")} become inf.`;
  },
};
