/* The predicted memory ledger at four moments of a step, by model, recipe, batch size and sequence length. */
const ledger = Ledger(JSON.stringify(data.facts));
const KINDS = {
  weights: color.weights, "optimizer state": color.optimizer, gradients: color.gradients,
  activations: color.activations, temporary: color.temporary,
};
const inLab = figure === "lab-01-four-moments";
const start = { model: "gpt2", batch: inLab ? 4 : 8, length: 1024, recipe: "fp32", checkpointing: "none" };

/** GB of each kind of memory at each moment, and the moment of the peak. */
function compute({ model, batch, length, recipe, checkpointing }) {
  const { family, ...sizes } = ledger.facts.preset[model];
  const seqLen = BigInt(Math.min(length, Number(sizes.blockSize)));
  const step = { batchSize: BigInt(batch), seqLen, layout: { checkpointing } };
  const rows = ledger.predict({ family, ...sizes }, ledger.facts.recipe[recipe], ledger.facts.optimizer.adamw, step);
  const moments = ledger.facts.phases.map((phase) => Object.values(ledger.at(rows, phase)).map((bytes) => Number(bytes) / 1e9));
  const { phase, bytes } = ledger.peak(rows);
  return { moments, peak: Number(bytes) / 1e9, phase, length: Number(seqLen) };
}

const explorable = {
  guess: {
    question: `GPT-2’s step on ${start.batch} sequences peaks at ${compute(start).peak.toFixed(2)} GB. Where does it peak on ${2 * start.batch}?`,
    unit: "GB",
    answer: () => compute({ ...start, batch: 2 * start.batch }).peak,
    why: "Activations and the loss’s buffers double with the batch; weights and optimizer state stay.",
  },
  controls: [
    { name: "model", label: "Model", options: Object.keys(data.facts.preset) },
    { name: "recipe", label: "Recipe", options: Object.keys(data.facts.recipe) },
    { name: "batch", label: "Batch size B", values: [1, 2, 4, 8, 16, 32, 64], show: (batch) => `${batch} sequence${batch > 1 ? "s" : ""}` },
    { name: "length", label: "Sequence length T", values: [128, 256, 512, 1024, 2048, 4096], unit: "tokens" },
    { name: "checkpointing", label: "Checkpointing", options: data.facts.checkpointing },
  ],
  start,
  compute,

  draw(_, { moments, phase }) {
    const phases = ledger.facts.phases;
    const names = Object.values(ledger.facts.kinds);
    const rows = moments.flatMap((sizes, at) => sizes.map((size, kind) => ({ moment: phases[at], kind: names[kind], size })));
    const ordered = Object.keys(KINDS).flatMap((kind) => rows.filter((row) => row.kind === kind));
    const sums = moments.map((sizes, at) => ({ moment: phases[at], size: sizes.reduce((sum, size) => sum + size, 0) }));
    return [
      Explorables.legend(KINDS),
      {
        height: 300,
        x: { domain: phases, label: null, tickFormat: (name) => name.replace(" ", "\n"), tickSize: 0 },
        y: { label: "GB", grid: true, nice: true, insetTop: 12 },
        marks: [
          Plot.barY(ordered, { x: "moment", y: "size", fill: ({ kind }) => KINDS[kind], insetLeft: 6, insetRight: 6, order: Object.keys(KINDS), z: "kind" }),
          Plot.text(sums, { x: "moment", y: "size", text: ({ size }) => Explorables.format(size), dy: -8, fontWeight: ({ moment }) => (moment === phase ? 700 : 400) }),
        ],
      },
    ];
  },

  says: ({ model, batch }, { peak, phase, length }) =>
    `${model} on ${batch} × ${length.toLocaleString("en-US")} tokens: ${peak.toFixed(2)} GB at the peak, ${phase}.`,
};
