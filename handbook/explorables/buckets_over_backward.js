/* Buckets of gradients that are exchanged while backward runs. */
const start = { buckets: 8, link: 50, tokens: 16384 };

/** Milliseconds: the two passes, the exchange of all buckets, the time at which each is sent, and the wait at the end. */
function compute({ buckets, link, tokens }) {
  const [forward, backward] = [data.forward, data.backward].map((time) => (time * tokens) / 16384);
  const exchange = (data.exchange * 50) / link;
  const times = sends(forward, backward, exchange, buckets);
  return { forward, backward, exchange, times, wait: times.at(-1) + exchange / buckets - forward - backward };
}

const explorable = {
  guess: {
    question: "With 8 buckets and one rank per node (50 GB/s) the step waits 17.5 ms after backward, which takes 164 ms. How long does it wait over 25 GB/s?",
    unit: "ms",
    answer: () => compute({ ...start, link: 25 }).wait,
    why: "The exchange now takes 280 ms, longer than backward, and its first bucket leaves after an eighth of backward. What backward cannot hide, the step waits for.",
  },
  controls: [
    { name: "buckets", label: "Buckets", values: [1, 2, 4, 8, 16, 32] },
    { name: "link", label: "Link", values: [12.5, 25, 50, 100, 200, 400, 450], unit: "GB/s" },
    { name: "tokens", label: "Tokens per rank", values: [2048, 4096, 8192, 16384, 32768] },
  ],
  start,
  compute,

  draw({ buckets }, { forward, backward, exchange, times, wait }) {
    const each = [backward / buckets, exchange / buckets];
    const blocks = [
      { row: "compute", begin: 0, end: forward, fill: color.gray },
      ...times.map((_, bucket) => ({ row: "compute", begin: forward + each[0] * bucket, end: forward + each[0] * (bucket + 1), fill: color.activations })),
      ...times.map((begin) => ({ row: "exchange", begin, end: begin + each[1], fill: color.communication })),
    ];
    const end = forward + backward;
    return [
      Explorables.legend({ forward: color.gray, "backward, in parts": color.activations, "exchange of a bucket": color.communication, wait: color.orange }),
      {
        height: 150, marginLeft: 70, marginTop: 8,
        x: { label: "ms since the beginning of the step", domain: [0, 1.02 * (end + wait)] },
        y: { label: null, domain: ["compute", "exchange"], tickSize: 0, padding: 0.15 },
        marks: [
          Plot.barX(blocks, { x1: "begin", x2: "end", y: "row", fill: "fill", insetLeft: buckets > 8 ? 0.2 : 0.7, insetRight: buckets > 8 ? 0.2 : 0.7 }),
          Plot.barX([wait], { x1: end, x2: end + wait, y: ["compute"], fill: color.orange, fillOpacity: 0.25, stroke: color.orange }),
        ],
      },
    ];
  },

  says({ buckets, link }, { exchange, backward, wait }) {
    const ms = (time) => `${Explorables.format(time)} ms`;
    return `${buckets} bucket${buckets > 1 ? "s" : ""} over ${link} GB/s: the exchange takes ${ms(exchange)} beside a backward of ${ms(backward)}, and the step waits ${ms(wait)}.`;
  },
};
