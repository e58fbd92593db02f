/* Calculator results: verdict, bars, tables, and the command that prints the same ledger. */

function LedgerView(root, ledger) {
  "use strict";

  const { facts, human, thousands } = ledger;
  const training = Object.values(facts.kinds).filter((kind) => facts.present[kind].length);
  const WARNING =
    "Less than a tenth of the memory is free, and the CUDA context, NCCL’s buffers and fragmentation need some of it.";
  const UNITS = { TB: 1e12, GB: 1e9, MB: 1e6, kB: 1e3, B: 1 };

  const slot = (name) => root.querySelector(`[data-show="${name}"]`);
  const show = (name, text) => (slot(name).textContent = text);
  const sum = (sizes) => sizes.reduce((total, size) => total + size, 0n);
  const round = (size) => human(size).replace(".00", "");
  const significant = (number, digits) => `${Number(number.toPrecision(digits))}`;
  const unitOf = (size) => Object.keys(UNITS).find((unit) => size >= UNITS[unit]) ?? "B";

  /** An element with attributes, and with texts or elements as children. */
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const keyOf = (kind) => Object.keys(facts.kinds).find((key) => facts.kinds[key] === kind).toLowerCase();
  const swatch = (kind) => make("span", { class: `swatch ${keyOf(kind)}`, "aria-hidden": "true" });

  // ------------------------------------------------------------------------------------------------------ the verdict
  function showVerdict({ device, hardware }, { peak, largest }) {
    const room = device.memory - peak.bytes;
    const name = hardware ? `${device.name} (${round(device.memory)})` : `a device of ${round(device.memory)}`;
    const state = room < 0n ? "no" : room * 10n < device.memory ? "barely" : "yes";
    root.querySelector(".outcome").dataset.fits = state;
    show("peak", human(peak.bytes));
    show("moment", `at the peak, when ${facts.moments[peak.phase]}`);
    show("fits", { no: "does not fit", barely: "just fits", yes: "fits" }[state]);
    show("room", room < 0n ? `${name}: ${human(-room)} too much.` : `${name}: ${human(room)} to spare.`);
    show("largest", largestText(largest));
    show("warning", state === "barely" ? WARNING : "");
  }

  /** Lists changes of the setting that leave enough memory free, as buttons that call `apply` with the new values. */
  function showAdvice(changes, apply) {
    const advice = root.querySelector(".advice");
    advice.hidden = root.querySelector(".outcome").dataset.fits === "yes";
    show("advice", changes.length ? "With a tenth of the memory free:" : "No single change leaves a tenth of the memory free.");
    const buttons = changes.map(({ words, fields, bytes }) => {
      const button = make("button", { type: "button" }, `${words}: ${human(bytes)}`);
      button.addEventListener("click", () => apply(fields));
      return make("li", {}, button);
    });
    advice.querySelector("ul").replaceChildren(...buttons);
  }

  function largestText(largest) {
    if (largest === null) return "More sequences fit than the ledger can count.";
    if (largest === 0n) return "Not even one sequence fits.";
    return `Largest micro-batch that fits: ${thousands(largest)} sequence${largest === 1n ? "" : "s"}.`;
  }

  function showFacts({ config, recipe, optimizer, layout, batchSize, seqLen }, { peak }) {
    const parameters = ledger.parameterCount(config);
    show("parameters", thousands(parameters));
    show("each", `${ledger.bytesPerParameter(recipe, optimizer)}`);
    show("each-peak", significant(Number(peak.bytes) / Number(parameters), 4));
    show("tokens", thousands(layout.data * layout.microBatches * batchSize * seqLen));
  }

  // --------------------------------------------------------------------------------------------------------- the bars
  /** Makes the bars' elements once, so that CSS can animate changes of their widths. */
  function makeBars() {
    const plot = root.querySelector(".plot");
    for (const phase of facts.phases) {
      const segments = training.map((kind) =>
        make("div", { class: `segment ${keyOf(kind)}`, "data-kind": kind }, make("span", {}, kind)),
      );
      const name = make("p", {}, phase);
      const total = make("p", { class: "sum" }, make("span", { class: "chip" }, "peak"), make("span", {}));
      const bar = make("div", { class: "bar" }, ...segments);
      plot.append(make("div", { class: "moment", "data-phase": phase }, name, total, bar));
    }
    const ticks = [0, 1, 2, 3, 4].map((quarter) => make("span", { style: `left: ${25 * quarter}%` }));
    plot.prepend(make("p", { class: "memory" }));
    plot.append(make("div", { class: "device" }), make("div", { class: "axis" }, ...ticks));
  }

  /** Bytes at the right end of the axis, which has four round steps. The axis includes the device's memory if that is
      less than 4 times the peak: with more memory, the bars would be too narrow to read. */
  function topOf(peak, memory) {
    const largest = Number(peak > memory / 4n && memory > peak ? memory : peak) * 1.02;
    const power = 10 ** Math.floor(Math.log10(largest / 4));
    return 4 * power * [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => 4 * step * power >= largest);
  }

  function showBars({ device }, { rows, peak }) {
    const top = topOf(peak.bytes, device.memory);
    const unit = unitOf(top);
    for (const phase of facts.phases) {
      const moment = root.querySelector(`.moment[data-phase="${phase}"]`);
      const sizes = ledger.at(rows, phase);
      for (const segment of moment.querySelectorAll(".segment")) {
        const size = sizes[segment.dataset.kind];
        segment.style.width = `${(100 * Number(size)) / top}%`;
        segment.classList.toggle("empty", !size);
        segment.title = `${segment.dataset.kind}: ${human(size)}`;
      }
      moment.classList.toggle("fullest", phase === peak.phase);
      moment.querySelector(".sum > :last-child").textContent = human(sum(Object.values(sizes)));
    }
    root.querySelectorAll(".axis > span").forEach((tick, quarter) => {
      tick.textContent = `${significant((top * quarter) / 4 / UNITS[unit], 4)}${quarter === 4 ? ` ${unit}` : ""}`;
    });
    showDevice(device, top);
  }

  /** Shows a line at the device's memory, with a label; or, beyond the axis, only the label. */
  function showDevice({ memory }, top) {
    const [line, label] = [root.querySelector(".device"), root.querySelector(".memory")];
    const share = Number(memory) / top;
    line.hidden = share > 1;
    line.style.left = `${Math.min(100, 100 * share)}%`;
    label.style.setProperty("--place", Math.min(1, share));
    label.textContent = round(memory) + (share > 1 ? ` is ${significant(share, 2)} times the end of the axis` : "");
  }

  // ------------------------------------------------------------------------------------------------------- the tables
  function showMoments({ rows, peak }) {
    const unit = unitOf(peak.bytes);
    const moments = facts.phases.map((phase) => [phase, ledger.at(rows, phase)]);
    const cell = (phase, size) => {
      const text = size ? (Number(size) / UNITS[unit]).toFixed(unit === "B" ? 0 : 2) : "–";
      return make("td", phase === peak.phase ? { class: "fullest" } : {}, text);
    };
    const line = (head, cells) => make("tr", {}, make("th", { scope: "row" }, ...head), ...cells);
    const cellsOf = (kind) => moments.map(([phase, sizes]) => cell(phase, sizes[kind]));
    const lines = training.map((kind) => line([swatch(kind), kind], cellsOf(kind)));
    const sums = moments.map(([phase, sizes]) => cell(phase, sum(Object.values(sizes))));
    root.querySelector(".moments tbody").replaceChildren(...lines);
    root.querySelector(".moments tfoot").replaceChildren(line(["total"], sums));
    for (const head of root.querySelectorAll(".moments thead [data-phase]")) {
      head.classList.toggle("fullest", head.dataset.phase === peak.phase);
    }
    show("unit", unit);
  }

  /** Shows a table body per kind of memory: its total, then its rows. Shares are fractions of the bytes at the peak. */
  function showRows({ rows, peak }) {
    const share = (shared) => {
      const bytes = sum(shared.filter((row) => row.phases.includes(peak.phase)).map((row) => row.bytes));
      return bytes ? `${((100 * Number(bytes)) / Number(peak.bytes)).toFixed(1)} %` : "";
    };
    const line = (scope, head, formula, bytes, shared) =>
      make(
        "tr",
        {},
        make("th", { scope }, ...head),
        make("td", { class: "formula" }, formula),
        make("td", { class: "size" }, thousands(bytes)),
        make("td", { class: "size" }, share(shared)),
      );
    const bodies = Object.values(facts.kinds).flatMap((kind) => {
      const kindRows = rows.filter((row) => row.kind === kind);
      if (!kindRows.length) return [];
      const head = training.includes(kind) ? [swatch(kind), kind] : [kind];
      const note = training.includes(kind) ? "" : "of generation, not of training";
      const total = line("rowgroup", head, note, ledger.total(rows, kind), kindRows);
      const lines = kindRows.map((row) => line("row", [row.name], row.formula, row.bytes, [row]));
      return make("tbody", {}, total, ...lines);
    });
    const table = root.querySelector(".rows");
    for (const body of [...table.tBodies]) body.remove();
    table.append(...bodies);
  }

  // ------------------------------------------------------------------------------------------------------ the command
  /** The `rankzero plan` command of a setting, in parts that stay on one line: each option with its value. */
  function planOf({ model, recipe, optimizer, batchSize, seqLen, layout, hardware }) {
    const { data, zero, tensor, microBatches } = layout;
    return [
      `rankzero plan ${model}`,
      ...[`--recipe ${recipe.name}`, `--optimizer ${optimizer.name}`, `--micro-batch ${batchSize}`, `--seq ${seqLen}`],
      ...(microBatches > 1n ? [`--micro-batches ${microBatches}`] : []),
      ...(layout.checkpointing === "none" ? [] : [`--checkpointing ${layout.checkpointing}`]),
      ...(data > 1n && !zero ? [`--data ${data}`] : []),
      ...(zero ? [`--shard ${data}`, `--zero ${zero}`] : []),
      ...(tensor > 1n ? [`--tensor ${tensor}`] : []),
      ...(layout.sequenceParallel ? ["--sequence-parallel"] : []),
      ...(hardware ? [`--hardware ${hardware}`] : []),
    ];
  }

  /** A setting's layout in Python; `pipeline` is the text of one more argument. */
  function layoutOf({ layout }, pipeline = "") {
    const { data, zero, tensor, checkpointing, microBatches } = layout;
    const flag = layout.sequenceParallel ? "True" : "False";
    const ranks = `data=${data}, zero=${zero}, tensor=${tensor}, sequence_parallel=${flag},`;
    return `Layout(\n    ${ranks}\n    checkpointing="${checkpointing}", micro_batches=${microBatches}${pipeline},\n)`;
  }

  /** A Python program that prints the ledger of a model that is not a preset, which `rankzero plan` cannot. */
  function programOf(setting) {
    const { config, recipe, optimizer, batchSize, seqLen } = setting;
    const [name, module] = config.family === "gpt" ? ["GPTConfig", "gpt"] : ["LlamaConfig", "llama"];
    const sizes = Object.entries(facts.sizes[config.family]).map(([size, python]) => `${python}=${config[size]}`);
    return [
      `from rankzero.learn.models.${module} import ${name}`,
      "from rankzero.ledger.plan.layout import Layout",
      "from rankzero.ledger.predict import predict",
      "from rankzero.ledger.recipes import OPTIMIZERS, RECIPES",
      "",
      `config = ${name}(\n    ${sizes.slice(0, 4).join(", ")},\n    ${sizes.slice(4).join(", ")},\n)`,
      `layout = ${layoutOf(setting)}`,
      `recipe, optimizer = RECIPES["${recipe.name}"], OPTIMIZERS["${optimizer.name}"]`,
      `step = {"batch_size": ${batchSize}, "seq_len": ${seqLen}}`,
      "ledger = predict(config, recipe, optimizer, layout=layout, **step)",
      "print(ledger, ledger.peak())",
    ].join("\n");
  }

  /** Shows the setting's command, and the command for two pipeline stages, with at least 2 micro-batches. */
  function showCommand(setting) {
    const microBatches = setting.layout.microBatches > 1n ? setting.layout.microBatches : 8n;
    const twoStages = { ...setting, layout: { ...setting.layout, microBatches } };
    const showParts = (name, parts) => {
      const spans = parts.flatMap((part) => [" ", make("span", {}, part)]).slice(1);
      slot(name).replaceChildren(...spans);
    };
    const isPreset = Boolean(facts.preset[setting.model]);
    show("check", isPreset ? "The same ledger from Python, in a terminal:" : "The same ledger from Python:");
    showParts("command", isPreset ? planOf(setting) : [programOf(setting)]);
    show("continues", isPreset ? "This setting with two pipeline stages:" : "In Python, with two pipeline stages:");
    const pythonLayout = `layout = ${layoutOf(twoStages, ", pipeline=2")}`;
    showParts("pipeline", isPreset ? [...planOf(twoStages), "--pipeline 2"] : [pythonLayout]);
  }

  makeBars();
  return {
    show(setting, result) {
      showVerdict(setting, result);
      showFacts(setting, result);
      showBars(setting, result);
      showMoments(result);
      showRows(result);
      showCommand(setting);
    },
    advise: showAdvice,
  };
}
