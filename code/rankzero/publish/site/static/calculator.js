/* Calculator form: reads and checks the ledger calculator's fields, which have Python's names.
   The form is the state: its values go to `Ledger`, and into the page's address, so that a setting can be linked. */

(() => {
  "use strict";

  const ledger = Ledger(document.getElementById("ledger-facts").textContent);
  const { facts } = ledger;
  const root = document.querySelector(".calculator");
  const view = LedgerView(root, ledger);
  const form = root.querySelector("form");
  const fields = [...form.elements].filter((field) => field.name);
  const sizeNames = Object.values(facts.sizes.llama); // a GPT has some of these

  const fieldOf = (name) => form.querySelector(`[data-field="${name}"]`);

  // ------------------------------------------------------------------------------------------------------ the setting
  const valueOf = (field) => (field.type === "checkbox" ? (field.checked ? "1" : "") : field.value);
  const familyOf = (model) => facts.preset[model]?.family ?? model;

  function defaultOf(field) {
    if (field.type === "checkbox") return field.defaultChecked ? "1" : "";
    return field.options ? [...field.options].find((option) => option.defaultSelected).value : field.defaultValue;
  }

  /** The form's values, as the parameters of `compute`. UserError for a number that is not a positive integer. */
  function read() {
    const text = (name) => valueOf(form.elements[name]);
    const number = (name) => ledger.positiveInt(name, text(name));
    const model = text("model");
    const family = familyOf(model);
    const config = { family };
    for (const [name, python] of Object.entries(facts.sizes[family])) config[name] = number(python);
    const own = text("hardware") === "own";
    const device = own ? { memory: number("memory") * 10n ** 9n } : facts.hardware[text("hardware")];
    const data = number("data");
    return {
      ...{ model, config, device, batchSize: number("batch_size"), seqLen: number("seq_len") },
      recipe: facts.recipe[text("recipe")],
      optimizer: facts.optimizer[text("optimizer")],
      hardware: own ? null : text("hardware"),
      layout: {
        data,
        zero: data === 1n ? 0n : BigInt(text("zero")), // ZeRO shards over data-parallel ranks
        tensor: number("tensor"),
        sequenceParallel: text("sequence_parallel") === "1",
        checkpointing: text("checkpointing"),
        microBatches: number("micro_batches"),
      },
    };
  }

  /** The rows, their peak, and the largest micro-batch, which is null if it is more than the ledger can count. */
  function compute(setting) {
    const { config, recipe, optimizer, device, batchSize, seqLen, layout } = setting;
    const rows = ledger.predict(config, recipe, optimizer, { batchSize, seqLen, layout });
    let largest = null;
    try {
      largest = ledger.largestMicroBatch(config, recipe, optimizer, { seqLen, budget: device.memory, layout });
    } catch (error) {
      if (!(error instanceof ledger.UserError)) throw error;
    }
    return { rows, peak: ledger.peak(rows), largest };
  }

  // ------------------------------------------------------------------------------------------------ settings that fit
  /** Changes of the setting that leave a tenth of the device's memory free, each with the values of its fields. */
  function changesThatFit(setting, { peak }) {
    const { config, recipe, optimizer, device, batchSize, seqLen, layout } = setting;
    const roomy = (device.memory * 9n) / 10n;
    if (peak.bytes <= roomy) return [];
    const peakOf = (size, changed) => {
      try {
        const rows = ledger.predict(config, recipe, optimizer, { batchSize: size, seqLen, layout: { ...layout, ...changed } });
        return ledger.peak(rows).bytes;
      } catch (error) {
        if (!(error instanceof ledger.UserError)) throw error;
        return null; // such a setting is impossible
      }
    };
    const change = (words, fields, size, changed) => ({ words, fields, bytes: peakOf(size, changed) });
    const divisors = Array.from({ length: Number(batchSize < 4096n ? batchSize : 4096n) }, (_, index) => BigInt(index + 1))
      .filter((size) => size < batchSize && batchSize % size === 0n).reverse();
    const families = [
      divisors.map((size) => {
        const microBatches = (layout.microBatches * batchSize) / size; // as many tokens per step as before
        const words = `micro-batches of ${size}, ${microBatches} of them`;
        return change(words, { batch_size: size, micro_batches: microBatches }, size, { microBatches });
      }),
      facts.checkpointing.map((checkpointing) =>
        change(`checkpointing of each ${checkpointing}`, { checkpointing }, batchSize, { checkpointing })),
      [1n, 2n, 3n].filter((zero) => layout.data > 1n && zero > layout.zero).map((zero) =>
        change(`ZeRO stage ${zero}`, { zero }, batchSize, { zero })),
      [2n, 4n, 8n, 16n, 32n, 64n, 128n, 256n].filter((data) => data > layout.data).map((data) =>
        change(`${data} data-parallel ranks with ZeRO stage 3`, { data, zero: 3n }, batchSize, { data, zero: 3n })),
    ];
    const fits = ({ bytes }) => bytes !== null && bytes <= roomy;
    return families.map((family) => family.find(fits)).filter(Boolean); // the smallest change of each kind
  }

  function apply(changed) {
    for (const [name, value] of Object.entries(changed)) form.elements[name].value = value;
    update();
    root.querySelector(".outcome").focus(); // the button that was pressed is gone
  }

  // ----------------------------------------------------------------------------------------------------- the address
  /** The fields that differ from their defaults, as the address lists them. A preset's sizes are left out. */
  function address() {
    const ownSizes = !facts.preset[form.elements.model.value];
    const candidates = fields.filter((field) => ownSizes || !sizeNames.includes(field.name));
    const changed = candidates.filter((field) => valueOf(field) !== defaultOf(field));
    return new URLSearchParams(changed.map((field) => [field.name, valueOf(field)])).toString();
  }

  function setAddress(hash) {
    if (hash === location.hash.slice(1)) return;
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  /** Sets the fields that the address lists to its values, and all other fields to their defaults. */
  function restore() {
    const values = new URLSearchParams(location.hash.slice(1));
    const problems = [];
    form.reset();
    update(false); // so that the page shows results even if the address has an impossible setting
    for (const field of fields.filter(({ name }) => values.has(name))) {
      const value = values.get(field.name);
      if (field.type === "checkbox") field.checked = value === "1";
      else if (!field.options || [...field.options].some((option) => option.value === value)) field.value = value;
      else problems.push([field.name, `the address has '${value}', which is not an option: choose another one.`]);
    }
    if (facts.preset[form.elements.model.value]) fillSizes(form.elements.model.value);
    root.querySelector(".sizes").open = !facts.preset[form.elements.model.value];
    update();
    for (const [name, sentence] of problems) showProblem(name, sentence);
  }

  // ------------------------------------------------------------------------------------------------------ the changes
  function fillSizes(preset) {
    for (const [name, python] of Object.entries(facts.sizes.llama)) {
      const field = form.elements[python];
      field.value = facts.preset[preset][name] ?? field.defaultValue;
    }
  }

  /** Adapts other fields to a changed field. A preset sets the sizes, and a changed size selects a model of the user's
      own. If the sequence had the greatest length of the old preset, it gets the greatest length of the new preset. */
  function follow(changed) {
    const { model, seq_len: seqLen, block_size: blockSize } = form.elements;
    if (changed === model && facts.preset[model.value]) {
      const isLongest = seqLen.value === seqLen.dataset.most;
      fillSizes(model.value);
      if (isLongest || Number(seqLen.value) > Number(blockSize.value)) seqLen.value = blockSize.value;
    } else if (sizeNames.includes(changed.name)) {
      model.value = familyOf(model.value);
    }
    if (changed === model) root.querySelector(".sizes").open = !facts.preset[model.value];
  }

  /** Shows the results for the form's values; or, for an invalid value, an error beside its field. */
  function update(writeAddress = true) {
    form.elements.seq_len.dataset.most = form.elements.block_size.value;
    for (const field of fields) field.removeAttribute("aria-invalid");
    for (const problem of form.querySelectorAll(".problem:not(:empty)")) problem.textContent = "";
    showFields();
    try {
      const setting = read();
      const result = compute(setting);
      view.show(setting, result);
      view.advise(changesThatFit(setting, result), apply);
      setStale(false);
    } catch (error) {
      if (!(error instanceof ledger.UserError)) throw error;
      showProblem(error.field, error.message);
      setStale(true);
    }
    if (writeAddress) setAddress(address());
  }

  function showProblem(name, sentence) {
    fieldOf(name).querySelector(".problem").textContent = sentence;
    form.elements[name].setAttribute("aria-invalid", "true");
    if (sizeNames.includes(name)) root.querySelector(".sizes").open = true;
  }

  /** While the setting is invalid, the page shows the results of the last valid setting, marked as stale. */
  function setStale(stale) {
    root.classList.toggle("stale", stale);
    root.querySelector(".old").hidden = !stale;
  }

  function showFields() {
    const { model, hardware, recipe, zero, data } = form.elements;
    const family = familyOf(model.value);
    for (const name of sizeNames) fieldOf(name).hidden = !Object.values(facts.sizes[family]).includes(name);
    fieldOf("memory").hidden = hardware.value !== "own";
    const showHint = (name, text) => (form.querySelector(`[data-hint="${name}"]`).textContent = text);
    const ignoresZero = zero.value !== "0" && data.value.trim() === "1";
    showHint("recipe", facts.recipe[recipe.value].says);
    showHint("zero", ignoresZero ? "One data-parallel rank has nothing to shard." : "");
    const [layers, width, heads] = ["n_layer", "hidden_dim", "n_head"].map((name) => form.elements[name].value);
    root.querySelector(".shape").textContent = `${layers} blocks, width ${width}, ${heads} heads`;
  }

  // ------------------------------------------------------------------------------------------------------- the events
  form.addEventListener("input", (event) => {
    follow(event.target);
    update();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("click", (event) => {
    const { halve, double, reset } = event.target.dataset;
    if (reset) {
      setAddress("");
      restore();
    }
    const field = form.elements[halve ?? double];
    if (!field || !/^\d+$/.test(field.value)) return;
    const number = BigInt(field.value);
    field.value = double ? 2n * number : number > 1n ? number / 2n : 1n;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  window.addEventListener("hashchange", () => {
    if (!location.hash || location.hash.includes("=")) restore();
  });

  restore();
  root.querySelector(".without").remove();
  root.querySelector(".desk").hidden = false;
})();
