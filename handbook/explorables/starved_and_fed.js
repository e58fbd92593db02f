/* Timeline of a loader's workers and the device, by the times of a batch and of a step. */
const BATCHES = 40; // as many as the timeline can show
const start = { workers: 2, load: 30, step: 10, slow: 1, prefetch: 2 };
const milliseconds = (count) => `${count} ms`;

/** Begin and end of loading and begin of the step of each batch in ms, and the share of the time that the device waits. */
const compute = ({ workers, load, step, slow, prefetch }) => ({
  rows: loaderTimeline(workers, load, step, prefetch, BATCHES, slow),
  share: waitingShare(workers, load, step, prefetch, slow),
});

const explorable = {
  guess: {
    question: "The picture has 0, 1 and 3 workers. With 2 workers, a batch that takes 30 ms to load and a step of 10 ms: " +
      "which percentage of the time does the device wait?",
    unit: "% of the time",
    answer: () => 100 * compute(start).share,
    why: "Two workers deliver a batch every 15 ms on average. The step takes 10 of the 15 ms.",
  },
  controls: [
    { name: "workers", label: "Workers", values: [0, 1, 2, 3, 4, 6, 8] },
    { name: "load", label: "Load a batch", values: [5, 10, 15, 20, 30, 40, 60], show: milliseconds },
    { name: "step", label: "Step", values: [5, 10, 20, 40], show: milliseconds },
    { name: "slow", label: "Every eighth batch", values: [1, 2, 4, 8], show: (times) => (times === 1 ? "as fast as the others" : `${times} times as slow`) },
    { name: "prefetch", label: "prefetch_factor", values: [1, 2, 4, 8] },
  ],
  start,
  compute,

  draw({ workers, step }, { rows }) {
    const end = rows[12][2];
    const names = workers === 0 ? ["main process"] : Array.from({ length: workers }, (_, worker) => `worker ${worker}`);
    const bar = (row, from, to, batch, paint) => ({ row, from, to: Math.min(to, end), batch, paint });
    const loads = rows.map(([from, to], batch) => bar(names[batch % names.length], from, to, batch, color.amber));
    const steps = rows.map(([, , from], batch) => bar("device", from, from + step, batch, color.blue));
    const bars = [...loads, ...steps].filter(({ from }) => from < end);
    return {
      height: 80 + 26 * (names.length + 1), marginLeft: 92,
      x: { label: "ms", domain: [0, end], ticks: 5 },
      y: { label: null, domain: [...names, "device"], padding: 0.1, tickSize: 0 },
      marks: [
        Plot.barX([{ row: "device" }], { x1: 0, x2: end, y: "row", fill: color.orange, fillOpacity: 0.3 }),
        Plot.barX(bars, { x1: "from", x2: "to", y: "row", fill: "paint", insetRight: 1 }),
      ],
    };
  },

  says({ workers, load, step, slow }, { share }) {
    const mean = load * (7 + slow) / 8;
    const every = Explorables.withUnit(workers === 0 ? mean : mean / workers, "ms");
    const loader = workers === 0 ? `The main process loads a batch in ${every}` :
      `${workers === 1 ? "1 worker can deliver" : `${workers} workers can deliver`} a batch every ${every}`;
    const waits = share < 0.005 ? "After the first batches the device never waits" :
      `After the first batches the device waits ${Explorables.format(100 * share)} % of the time`;
    return `${loader} on average, and a step takes ${step} ms. ${waits} (light orange).`;
  },
};
