/* Activations kept over forward and backward, by the length of the segments that are recomputed. */
const start = { blocks: 32, length: 8, inside: 16, plain: "shown" };

/** Kept activations after each block of forward and backward, in inputs of a block. */
function compute({ blocks, length, inside }) {
  const lengths = even(blocks, Math.ceil(blocks / length));
  const kept = keptOverAStep(lengths, inside);
  const plain = plainStep(blocks, inside);
  return { kept, plain, peak: Math.max(...kept), plainPeak: Math.max(...plain), segments: lengths.length };
}

const explorable = {
  guess: {
    question: "32 blocks, each with an inside 16 times as large as its input, keep 512 inputs without recomputation. What is the peak with 4 segments of 8 blocks?",
    unit: "inputs of a block",
    answer: () => compute(start).peak,
    why: "Backward restores one segment, 8 × 16 = 128, beside the inputs of the 3 segments before it.",
  },
  controls: [
    { name: "length", label: "Segment length", values: [1, 2, 3, 4, 6, 8, 11, 16, 32], show: (length) => `at most ${length} block${length > 1 ? "s" : ""}` },
    { name: "blocks", label: "Blocks", values: [8, 12, 16, 24, 32, 48, 64, 96] },
    { name: "inside", label: "A block’s inside", values: [1, 2, 4, 8, 16, 34], show: (inside) => `${inside} × its input` },
    { name: "plain", label: "Without recomputation", options: ["shown", "hidden"] },
  ],
  start,
  compute,

  draw({ blocks, plain }, numbers) {
    const line = (sizes, paint) => {
      const points = sizes.map((size, at) => ({ at: at + 1, size }));
      return [
        Plot.areaY(points, { x: "at", y: "size", curve: "step", fill: paint, fillOpacity: 0.15 }),
        Plot.line(points, { x: "at", y: "size", curve: "step", stroke: paint, strokeWidth: 2 }),
      ];
    };
    const names = new Map([[1, "block 1"], [blocks / 2, "forward →"], [1.5 * blocks, "→ backward"], [2 * blocks, "block 1"]]);
    return {
      height: 300, marginRight: 30,
      x: { label: null, ticks: [...names.keys()], tickFormat: (at) => names.get(at), domain: [0, 2 * blocks + 1] },
      y: { label: "activations, in inputs of a block", grid: true, nice: true, zero: true },
      marks: [
        ...(plain === "shown" ? line(numbers.plain, color.gray) : []),
        ...line(numbers.kept, color.orange),
        Plot.ruleX([blocks + 0.5], { stroke: color.muted, strokeDasharray: "2 4" }),
      ],
    };
  },

  says: ({ blocks }, { peak, plainPeak, segments }) =>
    `${blocks} blocks in ${segments} segment${segments > 1 ? "s" : ""}: a peak of ${Explorables.format(peak)} inputs (orange), ` +
    `${Explorables.format(plainPeak / peak)} times less than the ${Explorables.format(plainPeak)} without recomputation (gray).`,
};
