/* The predicted ledger in a browser: the Python of rankzero.ledger, translated by views/ledger_script.py.

   Around the translation: Python's operators and built-in functions (python.js), and the functions that the page calls. */

function Ledger(json) {
  "use strict";

  const facts = JSON.parse(json, (_, value) => (Number.isInteger(value) ? BigInt(value) : value));

  // ---- Errors. `field` is the field of the form whose value is wrong: Python's sentences do not contain it.
  const FIELDS = [
    [/^hidden_dim /, "hidden_dim"], [/heads of keys and values evenly/, "n_kv_head"], [/groups of/, "shard"],
    [/sequence parallelism/, "sequence_parallel"], [/^sequences of|cannot split \d+ tokens/, "seq_len"],
    [/ data ranks|ranks are more than/, "data"], [/ tensor ranks/, "tensor"], [/micro-batches in/, "micro_batches"],
    [/ZeRO stage/, "zero"], [/no checkpointing/, "checkpointing"], [/^a micro-batch of|tokens in a step/, "batch_size"],
  ];
  class UserError extends Error {
    constructor(sentence, field) {
      super(sentence);
      this.field = field ?? sentence.match(/^([a-z_]+) is -?\d/)?.[1] ?? FIELDS.find(([words]) => words.test(sentence))[1];
    }
  }
  class ArgumentTypeError extends Error {}
  class ValueError extends Error {}

// PYTHON

// FORMULAS

  // ---- The page's functions
  const configOf = ({ family, ...sizes }) => call({ gpt: GPTConfig, llama: LlamaConfig }[family], [], sizes);
  const layoutOf = (layout) => call(Layout, [], layout ?? {});
  return {
    ...{ facts, UserError, human, thousands },
    positiveInt(field, text) {
      try {
        return positiveInt(text);
      } catch (error) {
        throw error instanceof ArgumentTypeError ? new UserError(error.message, field) : error;
      }
    },
    parameterCount: (config) => parameterCount(configOf(config)),
    bytesPerParameter: (recipe, optimizer) => Number(bytesPerParameter(recipe, optimizer)),
    predict: (config, recipe, optimizer, { layout, ...step }) =>
      call(predict, [configOf(config), recipe, optimizer], { ...step, layout: layoutOf(layout) }).rows,
    largestMicroBatch: (config, recipe, optimizer, { layout, ...step }) =>
      call(largestMicroBatch, [configOf(config), recipe, optimizer], { ...step, layout: layoutOf(layout) }),
    total: (rows, kind) => new Ledger("", rows).total(kind),
    at: (rows, phase) => Object.fromEntries(new Ledger("", rows).at(phase)),
    peak(rows) {
      const [phase, bytes] = new Ledger("", rows).peak();
      return { phase, bytes };
    },
  };
}
