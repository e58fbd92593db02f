/* Pipeline schedules and their bubbles, by stages and micro-batches. */
const start = { schedule: "1F1B", stages: 4, microBatches: 8 };

/** The actions of each stage with their times, the end of the step, the idle share, and what stage 1 keeps. */
function compute({ schedule, stages, microBatches }) {
  const runs = schedule === "interleaved" ? 2 : 1;
  const count = runs === 2 ? Math.max(stages, microBatches) : microBatches; // interleaved, it is a multiple of the stages
  const { begins, actions, kept } = data[schedule][stages][count];
  const blocks = begins.flatMap((times, stage) => times.map((time, at) => {
    const microBatch = actions[stage][at];
    const begin = time / runs;
    return { stage, microBatch, begin, end: begin + (microBatch > 0 ? 1 : 2) / runs };
  }));
  return { blocks, count, end: Math.max(...blocks.map(({ end }) => end)), idle: bubble(stages, count, runs), kept: kept / runs };
}

const explorable = {
  guess: {
    question: "With 8 micro-batches on 4 stages each stage is idle for 27.3 % of the step. From how many micro-batches on is it below 10 %?",
    unit: "micro-batches",
    answer: () => Array.from({ length: 100 }, (_, less) => less + 1).find((count) => bubble(4, count) < 0.1),
    why: "The idle share is 3 / (m + 3): it falls only in proportion to the number of micro-batches.",
  },
  controls: [
    { name: "stages", label: "Stages p", values: [2, 4, 8] },
    { name: "microBatches", label: "Micro-batches m", values: [1, 2, 4, 8, 16] },
    { name: "schedule", label: "Schedule", options: Object.keys(data) },
  ],
  start,
  compute,

  draw({ stages }, { blocks, end }, width) {
    const rows = Array.from({ length: stages }, (_, stage) => stage);
    const wide = ({ begin, end: last }) => ((last - begin) / end) * (width - 70) > 15;
    return [
      Explorables.legend({ forward: color.blue, backward: color.orange, idle: color.panel }),
      {
        height: 70 + 30 * stages, marginLeft: 56, marginTop: 8,
        x: { label: "time, in forwards of one micro-batch", domain: [0, end] },
        y: { type: "band", domain: rows, label: null, tickSize: 0, tickFormat: (stage) => (stage ? `${stage + 1}` : "stage 1"), padding: 0.12 },
        marks: [
          Plot.barX(rows, { x1: 0, x2: end, y: (stage) => stage, fill: color.panel, stroke: color.grid }),
          Plot.barX(blocks, { x1: "begin", x2: "end", y: "stage", fill: ({ microBatch }) => (microBatch > 0 ? color.blue : color.orange), inset: 0.5 }),
          Plot.text(blocks.filter(wide), { x: ({ begin, end: last }) => (begin + last) / 2, y: "stage", text: ({ microBatch }) => `${Math.abs(microBatch)}`, fill: color.paper }),
        ],
      },
    ];
  },

  says: ({ schedule, stages }, { count, end, idle, kept }) =>
    `${schedule}, ${stages} stages, ${count} micro-batch${count > 1 ? "es" : ""}: the step takes the time of ${Explorables.format(end)} forwards, each stage is idle ` +
    `${(100 * idle).toFixed(1)} % of it, and stage 1 keeps the activations of up to ${Explorables.format(kept)} at once.`,
};
