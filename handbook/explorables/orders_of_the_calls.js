/* The losses of four orders of the calls of a step, as far as a reader has seen them. */
const LABELS = {
  "right order": "clear, backward, update", "never clear": "backward, update: never cleared",
  "clear too late": "backward, clear, update", "update first": "clear, update, backward",
};
const PAINT = { "right order": color.blue, "never clear": color.orange, "clear too late": color.gray, "update first": color.purple };
const CHOICES = ["its loss is higher than at the start", "its loss falls nearly as fast as it should", "its loss stays level"];
const start = { steps: 6, names: "hidden" };

/** The points up to a step, by run, and each run's loss there. */
function compute({ steps }) {
  const lines = Object.fromEntries(Object.entries(data).map(([name, points]) => [name, points.filter(([step]) => step <= steps)]));
  return { lines, losses: Object.fromEntries(Object.entries(lines).map(([name, points]) => [name, points.at(-1)[1]])) };
}

const explorable = {
  guess: {
    question: "One of four runs never clears its gradients. Would you have seen it? After 6 steps,",
    choices: CHOICES,
    answer() {
      const { losses } = compute(start);
      const [first] = data["never clear"][0].slice(1);
      const fallen = (first - losses["never clear"]) / (first - losses["right order"]);
      return CHOICES[losses["never clear"] > first ? 0 : fallen > 0.7 ? 1 : 2];
    },
    why: "The sum of a few gradients of one batch still points downhill. Move the slider to see when the run gives itself away, then show the names.",
  },
  controls: [
    { name: "steps", label: "Steps seen", values: data["right order"].map(([step]) => step).slice(1) },
    { name: "names", label: "Names of the runs", options: ["hidden", "shown"] },
  ],
  start,
  compute,

  draw({ names }, { lines }) {
    const points = Object.entries(lines).flatMap(([name, line]) => line.map(([step, loss]) => ({ name, step, loss })));
    const shown = names === "shown";
    const plot = {
      height: 290,
      x: { label: "step", domain: [0, 60] },
      y: { label: "loss, nats per token", domain: [0, 3.8], grid: true, ticks: 5 },
      marks: [
        Plot.line(points, { x: "step", y: "loss", z: "name", stroke: shown ? ({ name }) => PAINT[name] : color.ink, strokeWidth: 2 }),
        Plot.dot(points, { x: "step", y: "loss", r: 2.5, fill: shown ? ({ name }) => PAINT[name] : color.ink }),
      ],
    };
    const legend = Object.fromEntries(Object.entries(LABELS).map(([name, label]) => [label, PAINT[name]]));
    return shown ? [Explorables.legend(legend), plot] : plot;
  },

  says({ steps, names }, { losses }) {
    if (names === "hidden") return `Losses after ${steps} steps, in nats per token: ${Object.values(losses).sort().map((loss) => loss.toFixed(2)).join(", ")}.`;
    return `Losses after ${steps} steps: ${Object.entries(losses).map(([name, loss]) => `${LABELS[name]} ${loss.toFixed(2)}`).join("; ")}.`;
  },
};
