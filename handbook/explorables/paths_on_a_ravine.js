/* The paths of SGD, momentum and Adam on a ravine, by rate. */
const PAINT = { SGD: color.orange, momentum: color.blue, Adam: color.green };
const RATES = [0.001, 0.002, 0.005, 0.01, 0.015, 0.019, 0.0198, 0.0202, 0.021, 0.025, 0.03, 0.05, 0.1, 0.2, 0.5, 1];
const start = { optimizer: "SGD", rate: 0.0198, momentum: 0.9, steepness: 100 };

/** The points of the path, and the share of the first distance from the minimum that is left. */
function compute({ optimizer, rate, momentum, steepness }) {
  const [along, across] = [1, steepness].map((curvature, axis) => descend(optimizer, rate, momentum, curvature, data.start[axis]));
  const last = along.length - 1;
  return { along, across, left: Math.hypot(along[last], across[last]) / Math.hypot(...data.start) };
}

const explorable = {
  guess: {
    question: "SGD goes down a ravine of curvature 100 across and 1 along. Above which rate does it move away from the minimum?",
    unit: "",
    answer: () => 2 / start.steepness,
    why: "Each update multiplies the weight across by 1 − 100 × rate, which is below −1 from 2 / 100 on. Along the ravine the best rate would be 1.",
  },
  controls: [
    { name: "optimizer", label: "Optimizer", options: Object.keys(PAINT) },
    { name: "rate", label: "Rate", values: RATES, show: String },
    { name: "momentum", label: "Momentum, or β₁", values: [0, 0.5, 0.8, 0.9, 0.95, 0.99], show: String },
    { name: "steepness", label: "Curvature across", values: [1, 10, 100, 1000], show: (curvature) => `${curvature}, along 1` },
  ],
  start,
  compute,

  draw({ optimizer, steepness }, { along, across }) {
    const angles = Array.from({ length: 73 }, (_, step) => (step * Math.PI) / 36);
    const contours = [0.02, 0.1, 0.25, 0.5, 1, 2, 4].flatMap((height) =>
      angles.map((angle) => ({ height, x: Math.sqrt(2 * height) * Math.cos(angle), y: Math.sqrt((2 * height) / steepness) * Math.sin(angle) })));
    const path = along.map((x, at) => ({ x, y: across[at] })).filter(({ x, y }) => Math.abs(x) < 50 && Math.abs(y) < 50);
    return {
      height: 300,
      x: { label: "weight along the ravine", domain: [-1.3, 1.1], ticks: 5 },
      y: { label: "weight across", domain: [-0.42, 0.42], ticks: 5 },
      marks: [
        Plot.line(contours, { x: "x", y: "y", z: "height", stroke: color.grid, clip: true }),
        Plot.line(path, { x: "x", y: "y", stroke: PAINT[optimizer], strokeWidth: 1.3, clip: true }),
        Plot.dot(path, { x: "x", y: "y", r: 2.8, fill: PAINT[optimizer], clip: true }),
        Plot.text([[0, 0]], { text: ["+"], fontSize: 24, fill: color.ink }),
      ],
    };
  },

  says({ optimizer, rate }, { left }) {
    const end = left > 1 ? `${left < 1e6 ? Explorables.format(left) : left.toExponential(1)} times its first distance from the minimum: it moves away` : `${Explorables.format(left)} of its first distance from the minimum`;
    return `${optimizer} at rate ${rate} is, after 50 updates, at ${end}.`;
  },
};
