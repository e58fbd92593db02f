/* A layer on the roofline of a GPU, by its rows and its width. */
const NAMES = Object.keys(data);
const DOMAIN = [0.25, 8000];
const start = { rows: 64, width: 4096, device: NAMES[1] };

/** FLOPs per byte of the layer, the FLOP/s of the roof there, and the ridge. */
function compute({ rows, width, device }) {
  const { peak, bandwidth } = data[device];
  const x = intensity(rows, width);
  return { x, rate: attainable(x, peak, bandwidth), ridge: peak / bandwidth, peak };
}

const explorable = {
  guess: {
    question: "A bf16 layer, 4,096 wide, on an H100: a batch of how many rows is the first to reach the flat roof?",
    unit: "rows",
    answer: () => Array.from({ length: 4096 }, (_, less) => less + 1).find((rows) => {
      const { x, ridge } = compute({ ...start, rows });
      return x >= ridge;
    }),
    why: "While rows are few, the bytes are those of the matrix, and each row adds one FLOP per byte. The rows’ own bytes push the answer above the ridge’s 295.",
  },
  controls: [
    { name: "rows", label: "Rows: batch × tokens", values: Array.from({ length: 15 }, (_, power) => 2 ** power), unit: "" },
    { name: "width", label: "Width of the layer", values: [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] },
    { name: "device", label: "Device", options: NAMES },
  ],
  start,
  compute,

  draw({ width, device }, { x, rate, ridge, peak }) {
    const { bandwidth } = data[device];
    const roof = (at) => attainable(at, peak, bandwidth) / 1e12;
    const others = explorable.controls[0].values.map((rows) => intensity(rows, width));
    return {
      height: 320, marginLeft: 46,
      x: { type: "log", domain: DOMAIN, label: "arithmetic intensity, FLOPs per byte", ticks: [1, 10, 100, 1000], tickFormat: ",d" },
      y: { type: "log", domain: [0.6, 1.6 * (peak / 1e12)], label: "attainable TFLOP/s", ticks: [1, 10, 100, 1000], tickFormat: ",d", grid: true },
      marks: [
        Plot.ruleX([ridge], { stroke: color.muted, strokeDasharray: "2 4" }),
        Plot.text([ridge], { x: (at) => at, y: 0.8, text: (at) => `ridge ${at.toFixed(0)}`, textAnchor: "start", dx: 4, fill: color.muted }),
        Plot.line([DOMAIN[0], ridge, DOMAIN[1]], { x: (at) => at, y: roof, stroke: color.ink, strokeWidth: 2.2 }),
        Plot.dot(others, { x: (at) => at, y: roof, r: 2.5, fill: color.orange, fillOpacity: 0.6 }),
        Plot.dot([x], { x: (at) => at, y: roof, r: 7, fill: color.orange }),
      ],
    };
  },

  says({ rows, width }, { x, rate, ridge, peak }) {
    const limit = x < ridge ? "The memory’s bandwidth limits it" : "The peak limits it";
    return `${Explorables.format(rows)} × ${Explorables.format(width)}: ${Explorables.format(x)} FLOPs per byte. ${limit} to ` +
      `${Explorables.format(rate / 1e12)} TFLOP/s, ${Math.round((100 * rate) / peak)} % of the peak.`;
  },
};
