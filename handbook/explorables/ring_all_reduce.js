/* A ring all-reduce, turn by turn, with the bytes that each rank has sent. */
const start = { turn: 0, ranks: 3, vector: 14 };

/** The state of the turn: for each rank and chunk, the ranks in its sum; and GB sent by each rank. */
function compute({ turn, ranks, vector }) {
  const states = data.states[ranks];
  const now = Math.min(turn, states.length - 1);
  return { turn: now, last: states.length - 1, state: states[now], sent: sent(now, ranks, vector) };
}

const explorable = {
  guess: {
    question: "Eight ranks average 14 GB of gradients by a ring. How many GB does each rank send?",
    unit: "GB",
    answer: () => sent(2 * (8 - 1), 8, 14),
    why: "A ring takes 2 (N − 1) turns, and each rank sends one chunk of 14 / 8 GB per turn. More ranks approach 28 GB, never more.",
  },
  controls: [
    { name: "turn", label: "Turn", values: Array.from({ length: 11 }, (_, turn) => turn), next: "Next turn" },
    { name: "ranks", label: "Ranks", values: [2, 3, 4, 5, 6] },
    { name: "vector", label: "Gradients", values: [0.5, 1, 3, 7, 14, 28], unit: "GB" },
  ],
  start,
  compute,

  draw({ ranks }, { turn, state }, width) {
    const rows = state.flatMap((chunks, rank) => chunks.map((summed, chunk) => ({ rank, chunk, summed })));
    const arrived = ({ rank, chunk }) => turn > 0 && chunk === (((rank - turn) % ranks) + ranks) % ranks;
    const fill = ({ summed }) => (summed.length === ranks ? color.green : summed.length > 1 ? color.sky : color.panel);
    const text = ({ summed }) =>
      summed.length === ranks ? "all" : ranks > 3 && summed.length > 2 ? `${summed.length} of ${ranks}` : summed.join("+");
    return {
      height: 60 + 40 * ranks, marginLeft: 60, width: Math.min(width, 90 * ranks + 80), padding: 0.08, marginTop: 44, marginBottom: 6,
      x: { label: "chunk", axis: "top", tickSize: 0, labelOffset: 36 },
      y: { label: null, tickSize: 0, tickFormat: (rank) => `rank ${rank}` },
      marks: [
        Plot.cell(rows, { x: "chunk", y: "rank", fill, stroke: (row) => (arrived(row) ? color.orange : "none"), strokeWidth: 3, inset: 1.5 }),
        Plot.text(rows, { x: "chunk", y: "rank", text, fill: ({ summed }) => (summed.length === ranks ? color.paper : summed.length > 1 ? "#1f2328" : color.ink) }),
      ],
    };
  },

  says({ ranks, vector }, { turn, last, sent }) {
    const phase = turn === 0 ? "Each cell is one rank’s own chunk." : turn < ranks ? "Orange: a chunk that arrived and was added." : "Orange: a finished chunk that arrived.";
    return `After ${turn} of ${last} turns on ${ranks} ranks, each rank has sent ${Explorables.format(sent)} GB, ` +
      `${Explorables.format(sent / vector)} times its ${Explorables.format(vector)} GB. ${phase}`;
  },
};
