/* The ledger calculator's page. The form is the state: what it says goes into `Ledger`, and into the address, so that a
   setting can be linked. Fields have Python's names. */

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

  /** What the form says, as `predict` wants it. UserError for what is no number. */
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
        zero: data === 1n ? 0n : BigInt(text("zero")), // one rank shares with nobody
        tensor: number("tensor"),
        sequenceParallel: text("sequence_parallel") === "1",
        checkpointing: text("checkpointing"),
        microBatches: number("micro_batches"),
      },
    };
  }

  /** The rows, their peak, and the largest micro-batch; null for one that is more than the ledger counts. */
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

  // ----------------------------------------------------------------------------------------------------- the address
  /** Only what differs from the first setting; sizes only if they are the user's own. */
  function address() {
    const own = !facts.preset[form.elements.model.value];
    const told = fields.filter((field) => own || !sizeNames.includes(field.name));
    const differ = told.filter((field) => valueOf(field) !== defaultOf(field));
    return new URLSearchParams(differ.map((field) => [field.name, valueOf(field)])).toString();
  }

  function setAddress(hash) {
    if (hash === location.hash.slice(1)) return;
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  /** Sets the form as the address says, and everything else to its default. */
  function restore() {
    const told = new URLSearchParams(location.hash.slice(1));
    const unknown = [];
    form.reset();
    update(false); // so that there is a result, whatever the address says
    for (const field of fields.filter((one) => told.has(one.name))) {
      const value = told.get(field.name);
      if (field.type === "checkbox") field.checked = value === "1";
      else if (!field.options || [...field.options].some((option) => option.value === value)) field.value = value;
      else unknown.push([field.name, `the address asks for '${value}', which is no choice here: choose another.`]);
    }
    if (facts.preset[form.elements.model.value]) fillSizes(form.elements.model.value);
    root.querySelector(".sizes").open = !facts.preset[form.elements.model.value];
    update();
    for (const [name, sentence] of unknown) say(name, sentence);
  }

  // ------------------------------------------------------------------------------------------------------ the changes
  function fillSizes(preset) {
    for (const [name, python] of Object.entries(facts.sizes.llama)) {
      const field = form.elements[python];
      field.value = facts.preset[preset][name] ?? field.defaultValue;
    }
  }

  /** A preset brings its sizes; a size of one's own makes the model one's own. All the tokens there are stay all. */
  function follow(changed) {
    const { model, seq_len: seqLen, block_size: blockSize } = form.elements;
    if (changed === model && facts.preset[model.value]) {
      const all = seqLen.value === seqLen.dataset.most;
      fillSizes(model.value);
      if (all || Number(seqLen.value) > Number(blockSize.value)) seqLen.value = blockSize.value;
    } else if (sizeNames.includes(changed.name)) {
      model.value = familyOf(model.value);
    }
    if (changed === model) root.querySelector(".sizes").open = !facts.preset[model.value];
  }

  /** Computes and shows what the form says; or the sentence that says why not, beside its field. */
  function update(remember = true) {
    form.elements.seq_len.dataset.most = form.elements.block_size.value;
    for (const field of fields) field.removeAttribute("aria-invalid");
    for (const problem of form.querySelectorAll(".problem:not(:empty)")) problem.textContent = "";
    showFields();
    try {
      const setting = read();
      view.show(setting, compute(setting));
      setStale(false);
    } catch (error) {
      if (!(error instanceof ledger.UserError)) throw error;
      say(error.field, error.message);
      setStale(true);
    }
    if (remember) setAddress(address());
  }

  function say(name, sentence) {
    fieldOf(name).querySelector(".problem").textContent = sentence;
    form.elements[name].setAttribute("aria-invalid", "true");
    if (sizeNames.includes(name)) root.querySelector(".sizes").open = true;
  }

  /** Results of a setting that cannot be are the last ones that could. */
  function setStale(stale) {
    root.classList.toggle("stale", stale);
    root.querySelector(".old").hidden = !stale;
  }

  function showFields() {
    const { model, hardware, recipe, zero, data } = form.elements;
    const family = familyOf(model.value);
    for (const name of sizeNames) fieldOf(name).hidden = !Object.values(facts.sizes[family]).includes(name);
    fieldOf("memory").hidden = hardware.value !== "own";
    const says = (name, text) => (form.querySelector(`[data-says="${name}"]`).textContent = text);
    says("recipe", facts.recipe[recipe.value].says);
    says("zero", zero.value !== "0" && data.value.trim() === "1" ? "One rank shares with nobody." : "");
    const [layers, width, heads] = ["n_layer", "hidden_dim", "n_head"].map((name) => form.elements[name].value);
    root.querySelector(".shape").textContent = `${layers} blocks, ${width} wide, ${heads} heads`;
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
