/* Memory of weights, gradients and optimizer state per rank, by ZeRO stage, over the number of ranks. */
const STAGES = ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"];
const COLORS = [color.gray, color.green, color.orange, color.blue];
const RANKS = Array.from({ length: 11 }, (_, power) => 2 ** power);
const gigabytes = (billions, recipe, zero, ranks) =>
  statesPerRank(billions, data.recipes[recipe], data.optimizer, zero, ranks);

const explorable = {
  guess: {
    question: "The states of 70 billion parameters are weights, gradients and AdamW’s state, at 16 bytes per parameter. " +
      "Among how many GPUs of 80 GB must ZeRO-3 divide them so that they fit?",
    unit: "GPUs",
    answer: () => Array.from({ length: 100 }, (_, less) => less + 1).find((ranks) => gigabytes(70, "mixed", 3, ranks) <= 80),
    why: "70 billion times 16 bytes are 1,120 GB, and 1,120 / 80 is 14. Activations need room too, so a real step needs more.",
  },
  controls: [
    { name: "parameters", label: "Parameters", values: [1, 3, 7, 13, 30, 70, 175, 405], show: (count) => `${count} billion` },
    { name: "ranks", label: "Ranks", values: RANKS },
    { name: "recipe", label: "Recipe", options: Object.keys(data.recipes) },
    { name: "device", label: "Device", options: Object.keys(data.devices) },
  ],
  start: { parameters: 7, ranks: 64, recipe: "mixed", device: Object.keys(data.devices)[1] },

  compute: ({ parameters, recipe, ranks, device }) => ({
    lines: STAGES.map((_, zero) => RANKS.map((count) => gigabytes(parameters, recipe, zero, count))),
    held: STAGES.map((_, zero) => gigabytes(parameters, recipe, zero, ranks)),
    memory: data.devices[device],
  }),

  draw({ ranks }, { lines, held, memory }) {
    const points = lines.flatMap((sizes, zero) => sizes.map((size, at) => ({ zero, ranks: RANKS[at], size })));
    const range = [Math.min(...lines.flat(), memory), 1.1 * Math.max(...lines.flat(), memory)];
    const ends = points.filter((point) => point.ranks === 1024);
    const paint = { stroke: ({ zero }) => COLORS[zero], strokeWidth: 2 };
    return {
      height: 320, marginRight: 64, marginLeft: 48,
      x: { type: "log", base: 2, label: "ranks", ticks: [1, 4, 16, 64, 256, 1024], tickFormat: ",d" },
      y: { type: "log", label: "GB on each rank", grid: true, ticks: Explorables.logTicks(...range), tickFormat: String, domain: range },
      marks: [
        Plot.ruleY([memory], { stroke: color.muted, strokeDasharray: "5 4" }),
        Plot.text([memory], { x: 1024, y: (size) => size, text: (size) => `device: ${size} GB`, textAnchor: "end", dx: -4, dy: 10, fill: color.muted }),
        Plot.ruleX([ranks], { stroke: color.muted, strokeWidth: 1 }),
        Plot.line(points, { x: "ranks", y: "size", z: "zero", ...paint }),
        Plot.dot(held.map((size, zero) => ({ size, zero })), { x: ranks, y: "size", r: 4.5, fill: ({ zero }) => COLORS[zero] }),
        Plot.text(ends, { x: "ranks", y: "size", text: ({ zero }) => STAGES[zero], fill: ({ zero }) => COLORS[zero], textAnchor: "start", dx: 8 }),
      ],
    };
  },

  says({ ranks }, { held, memory }) {
    const sizes = STAGES.map((stage, zero) => `${Explorables.format(held[zero])} GB with ${stage}`);
    const fitting = STAGES.filter((_, zero) => held[zero] <= memory);
    const fit = fitting.length ? `Below the device’s ${memory} GB: ${fitting.join(", ")}.` : `All are above the device’s ${memory} GB.`;
    return `On ${Explorables.withUnit(ranks, ranks === 1 ? "rank" : "ranks")}, each rank holds ${sizes.join(", ")}. ${fit}`;
  },
};
