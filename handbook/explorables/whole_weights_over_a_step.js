/* Weights and gradients in memory at each layer of a step, by the way of sharding, as measured on 4 ranks. */
const WAYS = {
  "a group per layer, resharded": "each a group", "a group per layer, kept whole": "each, kept whole",
  "one group: the model": "one group", DDP: "not sharded",
};
const PAINT = { "each a group": color.blue, "each, kept whole": color.amber, "one group": color.orange, "not sharded": color.gray };
const start = { way: "a group per layer, kept whole", moment: 8 };
const momentText = (moment) => (moment <= 8 ? `forward, layer ${moment}` : `backward, layer ${17 - moment}`);

/** Layers in memory at the moment, and the peak of the step. */
function compute({ way, moment }) {
  const sizes = data[WAYS[way]];
  return { now: sizes[moment - 1], peak: Math.max(...sizes) };
}

const explorable = {
  guess: {
    question: "Eight layers on 4 ranks, a group per layer. A layer’s weights are gathered for its forward and kept whole until its backward. How many layers’ worth of memory does the step take at its peak?",
    unit: "layers",
    answer: () => compute(start).peak,
    why: "When forward ends, all 8 layers are whole, beside the rank’s shards. Resharding frees each layer after its forward and gathers it again in backward.",
  },
  controls: [
    { name: "way", label: "Sharding", options: Object.keys(WAYS) },
    { name: "moment", label: "Moment", values: Array.from({ length: 16 }, (_, at) => at + 1), show: momentText, next: "Next layer" },
  ],
  start,
  compute,

  draw({ way, moment }, { now }) {
    const points = Object.values(WAYS).flatMap((name) => data[name].map((size, at) => ({ name, at: at + 1, size })));
    const chosen = (yes, no) => ({ name }) => (name === WAYS[way] ? yes : no);
    const names = new Map([[1, "layer 1"], [4.5, "forward →"], [8.5, "8"], [12.5, "→ backward"], [16, "layer 1"]]);
    return [
      Explorables.legend(Object.fromEntries(Object.entries(WAYS).map(([label, name]) => [label, PAINT[name]]))),
      {
        height: 290, marginRight: 30,
        x: { label: null, ticks: [...names.keys()], tickFormat: (at) => names.get(at), domain: [0.5, 16.5] },
        y: { label: "weights and gradients in memory, in layers", domain: [0, 20], grid: true, ticks: 5 },
        marks: [
          Plot.ruleX([moment], { stroke: color.muted, strokeDasharray: "2 4" }),
          Plot.line(points, { x: "at", y: "size", z: "name", stroke: ({ name }) => PAINT[name], strokeOpacity: chosen(1, 0.35), strokeWidth: 2 }),
          Plot.dot([now], { x: moment, y: (size) => size, r: 5.5, fill: PAINT[WAYS[way]] }),
        ],
      },
    ];
  },

  says: ({ way, moment }, { now, peak }) =>
    `${way}: ${Explorables.format(now)} layers in memory at ${momentText(moment)}; ${Explorables.format(peak)} at the step’s peak.`,
};
