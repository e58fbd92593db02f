/* The predicted ledger in a browser: what rankzero.ledger.predict says one rank holds, to the byte.

   To be read beside the Python: the same functions under the same names, module by module, in the same order. What is
   data there (recipes, optimizers, presets, phases) is not written again; `facts` has it, as calculator.py wrote it
   into the page. Sizes are BigInt, which are whole, of any size, and divide as Python's // does for what is here: 0 up.
   Pipelines are left out: a rank has all blocks and both ends of the model. tests/site/test_calculator.py holds every
   row against Python's. */

function Ledger(json) {
  "use strict";

  const facts = JSON.parse(json, (_, value) => (Number.isInteger(value) ? BigInt(value) : value));
  const { WEIGHTS, GRADIENTS, OPTIMIZER, ACTIVATIONS, TEMPORARY, COMMUNICATION, KV_CACHE } = facts.kinds;
  const PHASES = facts.phases;
  const [FORWARD, BEGIN, END, UPDATE] = PHASES;

  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0n);
  const max = (...numbers) => numbers.reduce((largest, number) => (number > largest ? number : largest));
  const min = (...numbers) => numbers.reduce((smallest, number) => (number < smallest ? number : smallest));
  const ceil = (number, parts) => (number + parts - 1n) / parts; // -(-number // parts)
  const thousands = (number) => number.toString().replace(/\B(?=(\d{3})+$)/g, ","); // f"{number:,}"
  const list = (names) => names.join(", ");

  // ------------------------------------------------------------------------------------------------- learn/errors.py
  /** A mistake that the user can mend, in one sentence. `field` is what Python calls the number that is wrong. */
  class UserError extends Error {
    constructor(field, sentence) {
      super(sentence);
      this.field = field;
    }
  }

  const repr = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`);

  // ------------------------------------------------------------------------------------------------ learn/options.py
  /** positive_int: what somebody typed, as a number. */
  function positiveInt(field, text) {
    const number = /^\s*[+-]?\d+(_\d+)*\s*$/.test(text) ? BigInt(text.replace(/[\s_+]/g, "")) : 0n;
    if (number < 1n) throw new UserError(field, `${repr(text)} must be a whole number of at least 1.`);
    if (number > facts.largest) {
      throw new UserError(field, `${repr(text)} must be a whole number of at most ${facts.largest}.`);
    }
    return number;
  }

  // ------------------------------------------------------------------------------------ learn/gpt.py, learn/llama.py
  /** __post_init__ of GPTConfig and LlamaConfig. A config has their fields, and its `family`: "gpt" or "llama". */
  function checkConfig(config) {
    for (const [name, python] of Object.entries(facts.sizes[config.family])) {
      if (config[name] < 1n) throw new UserError(python, `${python} is ${config[name]}: it must be at least 1.`);
    }
    const { hiddenDim, nHead, nKvHead } = config;
    if (config.family === "gpt") {
      if (hiddenDim % nHead) {
        const what = `hidden_dim ${hiddenDim} does not divide into ${nHead} attention heads`;
        throw new UserError("hidden_dim", `${what}: use a multiple of ${nHead}.`);
      }
      return;
    }
    if (hiddenDim % (2n * nHead)) {
      const what = `hidden_dim ${hiddenDim} does not divide into ${nHead} attention heads of even width`;
      throw new UserError("hidden_dim", `${what}: use a multiple of ${2n * nHead}.`);
    }
    if (nHead % nKvHead) {
      const what = `${nHead} attention heads cannot share ${nKvHead} heads of keys and values evenly`;
      throw new UserError("n_kv_head", `${what}: use a divisor of ${nHead}.`);
    }
  }

  const headDim = (config) => config.hiddenDim / config.nHead;

  // ------------------------------------------------------------------------------------------------ ledger/models.py
  /** One kind of parameter tensor, and how often the model has it. As in Python, but that `split` null is None. */
  class Weight {
    constructor(group, shape, { copies = 1n, matmul = true, split = 0, inBlock = false } = {}) {
      Object.assign(this, { group, shape, copies, matmul, split, inBlock });
    }

    localShape(tensorRanks = 1n) {
      return this.shape.map((length, dim) => (dim === this.split ? ceil(length, tensorRanks) : length));
    }

    numbers(tensorRanks = 1n) {
      return this.localShape(tensorRanks).reduce((product, length) => product * length, 1n);
    }

    shard(tensorRanks, shards) {
      const [rows, ...rest] = this.localShape(tensorRanks);
      return ceil(rows, shards) * rest.reduce((product, length) => product * length, 1n);
    }
  }

  /** weights_of: every parameter tensor of the model, in the order of forward; a tied one once. */
  function weightsOf(config) {
    const [C, V, L] = [config.hiddenDim, config.vocabSize, config.nLayer];
    const gpt = config.family === "gpt";
    const norm = new Weight("norms", [C], { copies: L, matmul: false, split: null, inBlock: true });
    const matrix = (group, rows, columns, split) =>
      new Weight(group, [rows, columns], { copies: L, split, inBlock: true });
    const ends = [];
    let block;
    if (gpt) {
      ends.push(new Weight("position embedding", [config.blockSize, C], { matmul: false, split: null }));
      block = [
        norm,
        matrix("attention", 3n * C, C, 0),
        matrix("attention", C, C, 1),
        norm,
        matrix("MLP", 4n * C, C, 0),
        matrix("MLP", C, 4n * C, 1),
      ];
    } else {
      const [kv, F] = [config.nKvHead * headDim(config), config.ffnDim];
      block = [
        norm,
        matrix("attention", C, C, 0),
        matrix("attention", kv, C, 0),
        matrix("attention", kv, C, 0),
        matrix("attention", C, C, 1),
        norm,
        matrix("MLP", F, C, 0),
        matrix("MLP", F, C, 0),
        matrix("MLP", C, F, 1),
      ];
    }
    return [
      new Weight("token embedding", [V, C], { matmul: gpt }), // GPT's is also its output layer
      ...ends,
      ...block,
      new Weight("norms", [C], { matmul: false, split: null }),
      ...(gpt ? [] : [new Weight("output layer", [V, C])]),
    ];
  }

  /** parameter_count: learned numbers in the model. */
  const parameterCount = (config) => sum(weightsOf(config).map((weight) => weight.numbers() * weight.copies));

  // ----------------------------------------------------------------------------------------------- ledger/recipes.py
  /** bytes_per_parameter: weights, gradients and optimizer state of one parameter. No BigInt: it may be a fraction. */
  function bytesPerParameter(recipe, optimizer) {
    const own = recipe.weight + recipe.gradient + recipe.copy + recipe.master + recipe.accumulator;
    const each = optimizer.eightBit ? 1 + 4 / Number(facts.eightBitBlock) : Number(recipe.state);
    return Number(own) + each * optimizer.moments.length;
  }

  // ------------------------------------------------------------------------------------------------ ledger/layout.py
  /** Layout: `shard` null is None. Without a pipeline, and so without interleaving. */
  const layoutOf = (given = {}) => ({
    ...{ data: 1n, zero: 0n, tensor: 1n, sequenceParallel: false, checkpointing: "none" },
    ...{ shard: null, reshard: true, microBatches: 1n },
    ...given,
  });

  const shardsOf = (layout) => (layout.zero ? (layout.shard ?? layout.data) : 1n);

  /** Layout.check */
  function checkLayout(layout, config) {
    const refuse = (field, sentence) => {
      throw new UserError(field, sentence);
    };
    const { data, zero, tensor, checkpointing, shard, microBatches } = layout;
    if (data < 1n) refuse("data", `${data} data ranks: there must be at least 1.`);
    if (tensor < 1n) refuse("tensor", `${tensor} tensor ranks: there must be at least 1.`);
    if (microBatches < 1n) refuse("micro_batches", `micro_batches is ${microBatches}: it must be at least 1.`);
    if (microBatches > facts.mostMicroBatches) {
      const most = thousands(facts.mostMicroBatches);
      refuse("micro_batches", `${thousands(microBatches)} micro-batches in a step: use at most ${most}.`);
    }
    if (![0n, 1n, 2n, 3n].includes(zero)) refuse("zero", `there is no ZeRO stage ${zero}: use 0, 1, 2 or 3.`);
    if (shard !== null && (shard < 1n || data % shard)) {
      refuse("shard", `${data} data ranks do not make groups of ${shard}: use a divisor.`);
    }
    if (!facts.checkpointing.includes(checkpointing)) {
      const known = list(facts.checkpointing);
      refuse("checkpointing", `there is no checkpointing ${repr(checkpointing)}: use one of ${known}.`);
    }
    const [ranks, parameters] = [data * tensor, parameterCount(config)];
    if (ranks > parameters) {
      const what = `${thousands(ranks)} ranks are more than the model's ${thousands(parameters)} parameters`;
      refuse("data", `${what}: use fewer.`);
    }
    checkTensor(layout, config, refuse);
  }

  /** Layout._check_tensor */
  function checkTensor({ tensor, sequenceParallel }, config, refuse) {
    const heads = config.nKvHead ?? config.nHead;
    if (heads % tensor) {
      refuse("tensor", `${tensor} tensor ranks cannot share ${heads} heads evenly: use a divisor of ${heads}.`);
    }
    const wide = config.ffnDim ?? 4n * config.hiddenDim;
    if (wide % tensor) {
      refuse("tensor", `${tensor} tensor ranks cannot share an MLP ${wide} wide evenly: use a divisor of both.`);
    }
    if (sequenceParallel && tensor === 1n) {
      const what = "sequence parallelism splits what tensor parallelism leaves whole";
      refuse("sequence_parallel", `${what}: use 2 tensor ranks or more.`);
    }
  }

  // ------------------------------------------------------------------------------------------- ledger/activations.py
  /** Kept: one tensor that autograd keeps, `count` numbers of `size` bytes for each of `per`. */
  const kept = (name, symbols, count, size, more = {}) => ({
    ...{ name, symbols, count, size, where: "block", split: "sequence", per: "token" },
    ...more,
  });

  /** sizes_of: bytes of a number, by where it arises. */
  function sizesOf(recipe) {
    if (recipe.copy) return { compute: 2n, residual: 4n, statistic: 4n, loss: 4n, casts: true };
    const own = recipe.weight;
    return { compute: own, residual: own, statistic: own, loss: own, casts: false };
  }

  /** kept_tensors: every tensor that one forward pass, loss included, leaves for backward. */
  function keptTensors(config, recipe) {
    const sizes = sizesOf(recipe);
    const last = { where: "last", split: "nothing" };
    return [
      ...(config.family === "gpt" ? keptOfGpt(config, sizes) : keptOfLlama(config, sizes)),
      kept("output layer: input", "C", config.hiddenDim, sizes.compute, last),
      kept("loss: log-probabilities", "V", config.vocabSize, sizes.loss, { where: "last", split: "tensor" }),
      kept("loss: targets", "1", 1n, 8n, last),
      kept("loss: sum of weights", "1", 1n, sizes.loss, { ...last, per: "batch" }),
      kept("embedding: token ids", "1", 1n, 8n, { where: "first", split: "nothing" }),
    ];
  }

  /** kept_bytes: bytes of it that one tensor-parallel rank keeps, in one place. */
  function keptBytes(one, batchSize, seqLen, layout) {
    const times = { token: batchSize * seqLen, position: seqLen, batch: 1n }[one.per];
    if (one.split === "tensor") return ceil(one.count, layout.tensor) * times * one.size;
    const ranks = one.split === "sequence" && layout.sequenceParallel ? layout.tensor : 1n;
    return ceil(times, ranks) * one.count * one.size;
  }

  /** _gpt */
  function keptOfGpt(config, { compute, residual, statistic }) {
    const [C, H] = [config.hiddenDim, config.nHead];
    const [tensor, nothing] = [{ split: "tensor" }, { split: "nothing" }];
    return [
      kept("norms: input", "2C", 2n * C, residual),
      kept("norms: mean, 1/std", "4", 4n, statistic),
      kept("attention: input", "C", C, compute, nothing),
      kept("attention: q, k, v", "3C", 3n * C, compute, tensor),
      kept("attention: output", "C", C, compute, tensor),
      kept("attention: log-sum-exp", "H", H, 4n, tensor),
      kept("MLP: input", "C", C, compute, nothing),
      kept("MLP: before GELU", "4C", 4n * C, compute, tensor),
      kept("MLP: after GELU", "4C", 4n * C, compute, tensor),
      kept("embedding: positions", "1", 1n, 8n, { where: "first", per: "position", split: "nothing" }),
      kept("last norm: input", "C", C, residual, { where: "last" }),
      kept("last norm: mean, 1/std", "2", 2n, statistic, { where: "last" }),
    ];
  }

  /** _llama */
  function keptOfLlama(config, { compute, residual, casts }) {
    const [C, H, F, D] = [config.hiddenDim, config.nHead, config.ffnDim, headDim(config)];
    const kv = config.nKvHead * D;
    const [tensor, nothing, last] = [{ split: "tensor" }, { split: "nothing" }, { where: "last" }];
    const [intoAttention, intoMlp] = casts ? ["3C", "2C"] : ["C", "C"]; // q, k, v; gate, up
    return [
      kept("norms: input, in fp32", "2C", 2n * C, 4n),
      kept("norms: 1/rms", "2", 2n, 4n),
      kept("norms: normalized, in fp32", "2C", 2n * C, 4n),
      kept("attention: input", intoAttention, casts ? 3n * C : C, compute, nothing),
      kept("attention: q", "C", C, compute, tensor),
      kept("attention: k, v", "2KD", 2n * kv, compute, tensor),
      kept("attention: output", "C", C, compute, tensor),
      kept("attention: log-sum-exp", "H", H, 4n, tensor),
      kept("MLP: input", intoMlp, casts ? 2n * C : C, compute, nothing),
      kept("MLP: gate, silu(gate), up", "3F", 3n * F, compute, tensor),
      kept("MLP: product", "F", F, compute, tensor),
      kept("rotary: cos, sin", "2D", 2n * D, residual, { where: "run", per: "position", split: "nothing" }),
      kept("last norm: input, in fp32", "C", C, 4n, last),
      kept("last norm: 1/rms", "1", 1n, 4n, last),
      kept("last norm: normalized, in fp32", "C", C, 4n, last),
    ];
  }

  // ------------------------------------------------------------------------------------------------ ledger/ledger.py
  /** Row: some bytes of one kind; without phases, in those of its kind. */
  const row = (kind, name, bytes, formula = "", phases = facts.present[kind]) =>
    ({ kind, name, bytes, formula, phases });

  const bytesOf = (rows) => sum(rows.map((one) => one.bytes));

  /** Ledger.total of one kind. */
  const total = (rows, kind) => bytesOf(rows.filter((one) => one.kind === kind));

  /** Ledger.at: bytes by kind at that moment of a step. */
  const at = (rows, phase) =>
    Object.fromEntries(
      Object.values(facts.kinds).map((kind) => [
        kind,
        bytesOf(rows.filter((one) => one.kind === kind && one.phases.includes(phase))),
      ]),
    );

  /** Ledger.peak: the fullest moment of a step, and its bytes. The first of equals, as Python's max has it. */
  function peak(rows) {
    const totals = PHASES.map((phase) => sum(Object.values(at(rows, phase))));
    const bytes = max(...totals);
    return { phase: PHASES[totals.indexOf(bytes)], bytes };
  }

  /** human: bytes in a unit that reads well, decimal. */
  function human(size) {
    for (const [unit, factor] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
      if (size >= factor) return `${(Number(size) / factor).toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ",")} ${unit}`;
    }
    return `${size} B`;
  }

  // ---------------------------------------------------------------------------------------------- ledger/plan/shard_buffers.py
  /** units_of: what `fully_shard` gathers at once, if it is called on each block and then on the model. */
  function unitsOf(weights, layout) {
    const shards = layout.zero === 3n ? shardsOf(layout) : 1n;
    return [["root", false], ["block", true]].map(([name, inside]) => {
      const chosen = weights.filter((weight) => weight.inBlock === inside);
      const numbers = chosen.map(
        (weight) => weight.shard(layout.tensor, shards) * shards * (inside ? 1n : weight.copies),
      );
      return { name, copies: inside ? chosen[0].copies : 1n, numbers: sum(numbers) };
    });
  }

  /** buffers_of: whole weights and gradients of some units, by when they are there. */
  function buffersOf(weights, recipe, layout) {
    const [root, { numbers: block, copies: blocks }] = unitsOf(weights, layout);
    const [own, reduced] = [recipe.weight, recipe.gradient || recipe.accumulator];
    const head = weights.findLast((weight) => weight.matmul && !weight.inBlock);
    const whole = head.numbers(layout.tensor) * own;
    const buffer = (name, size, formula, ...phases) => row(COMMUNICATION, name, size, formula, phases);
    const [each, eachReduced] = [`${own} B a parameter`, `${reduced} B a parameter`];
    const always = [buffer("weights of the root", root.numbers * own, each, FORWARD, BEGIN)];
    if (!layout.reshard) always.push(buffer("weights of all blocks", blocks * block * own, each, FORWARD, BEGIN));
    const gathered = layout.reshard ? min(2n, blocks) * block * own : 0n;
    const inBlock = [
      buffer("weights of two blocks", gathered, each, BEGIN),
      buffer("gradients of a block, whole", block * own, each, BEGIN),
      buffer("reduce-scatter of a block", block * reduced, eachReduced, BEGIN),
      buffer("gradient of the output layer", whole, each, BEGIN),
    ];
    const tied = head.group === "token embedding"; // the gradients of its two uses, and their sum
    const atEnd = tied
      ? [
          buffer("weights of the root, still", root.numbers * own, each, END),
          buffer("gradients of the tied matrix", 3n * whole, `3·V·C·${own}`, END),
          buffer("reduce-scatter of the first block", block * reduced, eachReduced, END),
        ]
      : [
          buffer("gradients of the root, whole", root.numbers * own, each, END),
          buffer("reduce-scatter of the root", root.numbers * reduced, eachReduced, END),
        ];
    return { always, inBlock, atEnd };
  }

  // ----------------------------------------------------------------------------------------------- ledger/predict.py
  /** predict: the rows of what one rank holds. UserError for sizes that cannot be. */
  function predict(config, recipe, optimizer, { batchSize, seqLen, layout: given }) {
    checkConfig(config);
    const layout = layoutOf(given);
    checkLayout(layout, config);
    if (batchSize < 1n) {
      throw new UserError("batch_size", `a micro-batch of ${batchSize} sequences: there must be at least 1.`);
    }
    if (seqLen < 1n || seqLen > config.blockSize) {
      throw new UserError("seq_len", `sequences of ${seqLen} tokens: this model takes 1 to ${config.blockSize}.`);
    }
    if (layout.sequenceParallel && seqLen % layout.tensor) {
      const what = `${layout.tensor} tensor ranks cannot split ${seqLen} tokens evenly`;
      throw new UserError("seq_len", `${what}: use a multiple.`);
    }
    const tokens = batchSize * seqLen;
    if (tokens * max(config.vocabSize, config.nLayer * config.hiddenDim) > 10n ** 16n) {
      const what = `${thousands(tokens)} tokens in a step of this model are more than any machine holds`;
      throw new UserError("batch_size", `${what}: use fewer.`);
    }
    const weights = weightsOf(config);
    const rows = [
      ...weightRows(weights, recipe, layout),
      ...gradientRows(weights, recipe, layout),
      ...optimizerRows(weights, recipe, optimizer, layout),
      ...backwardRows(config, recipe, optimizer, batchSize, seqLen, layout),
      kvCacheRow(config, batchSize, seqLen, recipe.copy || recipe.weight, layout.tensor),
    ];
    return rows.filter((one) => one.bytes);
  }

  /** backward_rows: activations and buffers, where backward holds most of them: in the loss, or in a sharded block. */
  function backwardRows(config, recipe, optimizer, batchSize, seqLen, layout) {
    const weights = weightsOf(config);
    const sizes = [batchSize, seqLen, layout];
    const activations = activationRows(config, recipe, ...sizes);
    const temporary = temporaryRows(config, recipe, optimizer, ...sizes);
    if (layout.zero < 3n || layout.data === 1n) {
      return [...activations, ...temporary, ...communicationRows(weights, recipe, layout)];
    }
    const buffers = buffersOf(weights, recipe, layout);
    const again = blockAgain(config, recipe, ...sizes);
    const ends = keptTensors(config, recipe)
      .filter((one) => one.where === "last")
      .map((one) => one.name);
    const loss = row(TEMPORARY, "loss: two gradients", lossBytes(config, recipe, ...sizes), "2·B·T·V·bytes");
    const inLoss = loss.bytes + bytesOf(activations.filter((one) => ends.includes(one.name)));
    const others = temporary.slice(1);
    if (inLoss >= bytesOf([...buffers.inBlock, again])) {
      return [...activations, loss, ...others, ...buffers.always, ...buffers.atEnd];
    }
    const before = activations.map((one) => (ends.includes(one.name) ? { ...one, phases: [FORWARD] } : one));
    return [...before, again, ...others, ...buffers.always, ...buffers.inBlock, ...buffers.atEnd];
  }

  /** held: numbers of all copies of `weight` that one rank holds, if ZeRO shards them from `stage` on. */
  function held(weight, layout, stage) {
    if (layout.zero === 3n) return weight.shard(layout.tensor, shardsOf(layout)) * weight.copies; // row by row
    const numbers = weight.numbers(layout.tensor);
    return (layout.zero >= stage ? ceil(numbers, shardsOf(layout)) : numbers) * weight.copies;
  }

  /** held_gradient: DTensor makes that of a split embedding whole on every rank, unless it is sharded. */
  function heldGradient(weight, layout) {
    if (layout.zero < 2n && weight.split !== null && !weight.matmul) return weight.numbers() * weight.copies;
    return held(weight, layout, 2n);
  }

  /** weight_rows: the parameters, and autocast's copies of those that are multiplied with. */
  function weightRows(weights, recipe, layout) {
    const groups = [...new Set(weights.map((weight) => weight.group))];
    const rows = groups.map((group) => {
      const numbers = sum(weights.filter((weight) => weight.group === group).map((weight) => held(weight, layout, 3n)));
      return row(WEIGHTS, group, numbers * recipe.weight, `${recipe.weight} B a parameter`);
    });
    const multiplied = weights.filter((weight) => weight.matmul);
    const copied = sum(multiplied.map((weight) => weight.numbers(layout.tensor) * weight.copies));
    const formula = `${recipe.copy} B each in a matrix`;
    return [...rows, row(WEIGHTS, "autocast's bf16 copies", copied * recipe.copy, formula, [FORWARD, BEGIN])];
  }

  /** gradient_rows: one gradient a parameter, and the fp32 sum over micro-batches if the recipe keeps one. */
  function gradientRows(weights, recipe, layout) {
    const numbers = sum(weights.map((weight) => heldGradient(weight, layout)));
    const summed = sum(weights.map((weight) => held(weight, layout, 2n)));
    const [name, phases] = layout.microBatches === 1n ? ["of this backward"] : ["summed over micro-batches", PHASES];
    const each = (size) => `${size} B a parameter`;
    const { gradient, accumulator } = recipe;
    return [
      row(GRADIENTS, name, numbers * gradient, each(gradient), phases),
      row(GRADIENTS, "fp32 sum of micro-batches", summed * accumulator, each(accumulator), PHASES),
    ];
  }

  /** optimizer_rows: master weights, the optimizer's averages, its step counts. */
  function optimizerRows(weights, recipe, optimizer, layout) {
    const numbers = sum(weights.map((weight) => held(weight, layout, 1n)));
    const rows = [row(OPTIMIZER, "master weights", numbers * recipe.master, `${recipe.master} B a parameter`)];
    for (const moment of optimizer.moments) {
      if (optimizer.eightBit) {
        const sizes = weights.map((w) => eightBit(held(w, layout, 1n) / w.copies) * w.copies);
        rows.push(row(OPTIMIZER, moment, sum(sizes), `1 + 4/${facts.eightBitBlock} B a parameter`));
        continue;
      }
      // It begins as the gradient.
      const asGradient = moment === "velocity" && layout.zero === 0n && !recipe.accumulator;
      const averaged = asGradient ? sum(weights.map((weight) => heldGradient(weight, layout))) : numbers;
      rows.push(row(OPTIMIZER, moment, averaged * recipe.state, `${recipe.state} B a parameter`));
    }
    if (optimizer.countsSteps) {
      rows.push(row(OPTIMIZER, "step counts", 4n * sum(weights.map((weight) => weight.copies)), "4 B a tensor"));
    }
    return rows;
  }

  /** _eight_bit: a byte each and an fp32 scale a block; small tensors stay in fp32. */
  function eightBit(numbers) {
    if (numbers < facts.eightBitSmallest) return 4n * numbers;
    return numbers + 4n * ceil(numbers, facts.eightBitBlock);
  }

  /** activation_rows: what forward leaves for backward, component by component, of one micro-batch: no pipeline. */
  function activationRows(config, recipe, batchSize, seqLen, layout) {
    let tensors = keptTensors(config, recipe);
    if (layout.checkpointing === "block") {
      const stream = kept("block inputs", "C", config.hiddenDim, sizesOf(recipe).residual);
      tensors = [...tensors.filter((one) => one.where !== "block"), stream];
    }
    return tensors.map((one) => {
      const inBlock = one.where === "block";
      const symbols = one.symbols === "1" ? `${one.size}` : `${one.symbols}·${one.size}`;
      const formula = (inBlock ? "L·" : "") + { token: "B·T·", position: "T·", batch: "" }[one.per] + symbols;
      const bytes = keptBytes(one, batchSize, seqLen, layout) * (inBlock ? config.nLayer : 1n);
      return row(ACTIVATIONS, one.name, bytes, formula);
    });
  }

  /** loss_bytes: the two gradients that backward begins with, of the log-probabilities and of the logits. */
  const lossBytes = (config, recipe, batchSize, seqLen, layout) =>
    2n * ceil(config.vocabSize, layout.tensor) * batchSize * seqLen * sizesOf(recipe).loss;

  /** block_again: all that a block keeps, when it runs again in backward; nothing without checkpointing. */
  function blockAgain(config, recipe, batchSize, seqLen, layout) {
    const block = keptTensors(config, recipe).filter(
      (one) => one.where === "block" && layout.checkpointing === "block",
    );
    const size = sum(block.map((one) => keptBytes(one, batchSize, seqLen, layout)));
    return row(TEMPORARY, "one block, run again", size, "all that it keeps");
  }

  /** temporary_rows: the largest short-lived buffers, in backward and in the update. */
  function temporaryRows(config, recipe, optimizer, batchSize, seqLen, layout) {
    const weights = weightsOf(config);
    const numbers = weights.map((weight) => held(weight, layout, 1n));
    const largest = max(...numbers.map((n, index) => n / weights[index].copies));
    const [buffers, formula] = optimizer.countsSteps ? [2n, "2·largest·bytes"] : [0n, ""]; // SGD updates in place
    const [updated, source] = [recipe.master || recipe.weight, recipe.accumulator || recipe.gradient];
    const converted = updated !== source ? sum(numbers) * updated : 0n; // gradients in the update's own dtype
    const loss = lossBytes(config, recipe, batchSize, seqLen, layout);
    let backward = row(TEMPORARY, "loss: two gradients", loss, "2·B·T·V·bytes");
    const again = blockAgain(config, recipe, batchSize, seqLen, layout).bytes - loss / 2n; // log-probabilities go
    if (again > loss) backward = row(TEMPORARY, "one block, run again", again, "all it keeps, less B·T·V·bytes");
    const update = buffers * largest * recipe.state;
    return [
      backward,
      row(TEMPORARY, "gradients, converted", converted, `${updated} B a parameter`, [UPDATE]),
      row(TEMPORARY, "update of the largest weight", update, formula, [UPDATE]),
    ];
  }

  /** communication_rows: buffers of data parallelism with ZeRO 0 to 2; for 3 see buffersOf. None with one data rank. */
  function communicationRows(weights, recipe, layout) {
    if (layout.data === 1n || layout.zero === 3n) return [];
    const units = unitsOf(weights, layout);
    const size = recipe.gradient || recipe.accumulator;
    const formula = `${size} B a parameter`;
    if (layout.zero < 2n) {
      const numbers = sum(units.map((unit) => unit.numbers * unit.copies));
      return [row(COMMUNICATION, "all-reduce buckets", numbers * size, formula, PHASES)];
    }
    const block = units.find((unit) => unit.name === "block").numbers;
    return [row(COMMUNICATION, "reduce-scatter, one block", block * size, formula, [BEGIN, END])];
  }

  /** kv_cache_row: keys and values of `seqLen` tokens, which generation keeps so as not to compute them again. */
  function kvCacheRow(config, batchSize, seqLen, size, tensorRanks = 1n) {
    const heads = (config.nKvHead ?? config.nHead) / tensorRanks;
    const bytes = 2n * config.nLayer * heads * headDim(config) * size * batchSize * seqLen;
    return row(KV_CACHE, "keys and values", bytes, `2·L·K·D·${size} B a token`);
  }

  /** largest_micro_batch: its sequences, if its predicted peak is to fit into `budget` bytes; 0 if none does. */
  function largestMicroBatch(config, recipe, optimizer, { seqLen, budget, layout }) {
    const fits = (batchSize) => peak(predict(config, recipe, optimizer, { batchSize, seqLen, layout })).bytes <= budget;
    if (!fits(1n)) return 0n;
    let high = 2n;
    while (fits(high)) high *= 2n;
    let low = high / 2n; // fits; high does not
    while (high - low > 1n) {
      const middle = (low + high) / 2n;
      [low, high] = fits(middle) ? [middle, high] : [low, middle];
    }
    return low;
  }

  return {
    ...{ facts, UserError, positiveInt, parameterCount, bytesPerParameter },
    ...{ predict, total, at, peak, largestMicroBatch, human, thousands },
  };
}
