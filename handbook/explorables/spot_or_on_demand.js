/* Expected dollars of 100 hours of training on demand and on spot machines, over the interval between saves. */
const MINUTES = data.intervals.map((interval) => 60 * interval);
const plural = (count, unit) => `${count} ${unit}${count === 1 ? "" : "s"}`;
const span = (minutes) => (minutes < 100 ? `${Explorables.format(minutes)} minutes` : `${Explorables.format(minutes / 60)} hours`);
const money = (amount) => `$${Math.round(amount).toLocaleString("en-US")}`;

/** Dollars at each of data.intervals, on demand and spot, and the index of the lowest of each. */
function compute({ failures, preemptions, save, restart, notice, onDemand, spot }) {
  const costs = (price, preempted) => data.intervals.map((interval) =>
    dollars(data.hours, price, interval, save / 3600, restart / 60, 1 / failures, preempted, notice / 3600));
  const lines = { "on demand": costs(onDemand, 0), spot: costs(spot, 1 / preemptions) };
  const lowest = Object.fromEntries(Object.entries(lines).map(([name, line]) => [name, Math.min(...line)]));
  return { lines, lowest };
}
const start = { failures: 400, preemptions: 6, save: 60, restart: 5, notice: 30, onDemand: 40, spot: 16 };
const paint = { "on demand": color.gray, spot: color.orange };

const explorable = {
  guess: {
    question: "A job costs 40 dollars per hour on demand and 16 on spot machines, which are taken back every 6 hours on average. " +
      "A save takes 60 seconds, more than the notice of 30; a restart takes 5 minutes. " +
      "At the best interval, how many dollars do 100 hours of training cost on spot machines?",
    unit: "dollars",
    answer: () => compute(start).lowest.spot,
    why: "Without stops it would be 1,600 dollars. Saves, lost work and restarts add 9 %.",
  },
  controls: [
    { name: "preemptions", label: "A preemption every", values: [0.25, 0.5, 1, 2, 4, 6, 12, 24, 72, 168], show: (hours) => plural(hours, "hour") },
    { name: "failures", label: "A failure every", values: [1, 3, 8, 24, 100, 400, 2000], show: (hours) => plural(hours, "hour") },
    { name: "save", label: "Save", values: [5, 15, 30, 60, 120, 300, 900], show: (seconds) => `${seconds} s` },
    { name: "restart", label: "Restart", values: [1, 2, 5, 10, 20, 60], show: (minutes) => `${minutes} min` },
    { name: "notice", label: "Notice", values: [0, 30, 120], show: (seconds) => `${seconds} s` },
    { name: "onDemand", label: "Price on demand", values: [5, 10, 20, 40, 80], show: (price) => `$${price} per hour` },
    { name: "spot", label: "Price of spot", values: [2, 4, 8, 12, 16, 20, 28, 40], show: (price) => `$${price} per hour` },
  ],
  start,
  compute,

  draw(_, { lines, lowest }) {
    const top = 2.2 * Math.max(...Object.values(lowest));
    const points = Object.entries(lines).flatMap(([name, line]) => line.map((cost, at) => ({ name, minutes: MINUTES[at], cost })));
    const best = points.filter(({ name, cost }) => cost === lowest[name]);
    return [
      Explorables.legend(paint),
      {
        height: 290, marginLeft: 52,
        x: { type: "log", label: "interval between saves", ticks: [1, 4, 15, 60, 240, 960], domain: [1, 1024],
          tickFormat: (minutes) => (minutes < 60 ? `${minutes} min` : `${minutes / 60} h`) },
        y: { label: `dollars for ${data.hours} hours of training`, domain: [0, top], grid: true, ticks: 5 },
        marks: [
          Plot.line(points.filter(({ cost }) => cost <= top), { x: "minutes", y: "cost", z: "name", stroke: ({ name }) => paint[name], strokeWidth: 2 }),
          Plot.dot(best, { x: "minutes", y: "cost", r: 5, fill: ({ name }) => paint[name] }),
        ],
      },
    ];
  },

  says({ save, notice }, { lines, lowest }) {
    const best = (name) => span(MINUTES[lines[name].indexOf(lowest[name])]);
    const ways = Object.keys(lines).map((name) => `${name} ${money(lowest[name])} with a save every ${best(name)}`).join(", ");
    const fits = notice >= save ? "A save fits into the notice, so a preemption loses no work." : "A save does not fit into the notice, so a preemption loses the work since the last save.";
    return `Lowest cost: ${ways}. ${fits}`;
  },
};
