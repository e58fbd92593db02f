/* The predicted ledger in a browser: the Python of rankzero.ledger, translated by views/ledger_script.py.

   Around the translation: Python's operators and built-in functions, and the functions that the page calls. */

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

  // ---- Operators. Whole numbers are BigInt, floats are Number.
  const isInt = (value) => typeof value === "bigint";
  const exact = (a, b) => isInt(a) && isInt(b);
  const add = (a, b) => (exact(a, b) || typeof a === "string" ? a + b : Number(a) + Number(b));
  const sub = (a, b) => (a instanceof Set ? new Set([...a].filter((value) => !b.has(value))) : exact(a, b) ? a - b : Number(a) - Number(b));
  const mul = (a, b) => (exact(a, b) ? a * b : Array.isArray(b) ? Array(Number(a)).fill(b).flat() : Number(a) * Number(b));
  const div = (a, b) => Number(a) / Number(b);
  const pow = (a, b) => a ** b;
  const floordiv = (a, b) => a / b - (a % b !== 0n && a < 0n !== b < 0n ? 1n : 0n);
  const mod = (a, b) => a - b * floordiv(a, b);
  const eq = (a, b) => a === b;
  const ne = (a, b) => a !== b;
  const contains = (value, all) => (Array.isArray(all) ? all.includes(value) : all.has(value));
  const lacks = (value, all) => !contains(value, all);
  const truth = (value) => Boolean(value?.size ?? value?.length ?? value);
  const or = (value, other) => (truth(value) ? value : other());
  const and = (value, other) => (truth(value) ? other() : value);

  // ---- Built-in functions
  const camel = (name) => name.replace(/(?<=.)_(\w)/g, (_, letter) => letter.toUpperCase());
  const iter = (all) => (all instanceof Map ? [...all.keys()] : Array.isArray(all) ? all : Symbol.iterator in all ? [...all] : Object.values(all));
  const item = (all, key) => (all instanceof Map ? all.get(key) : all[Number(key)]);
  const getattr = (object, name, other) => object[camel(name)] ?? other;
  const setattr = (object, name, value) => { object[camel(name)] = value; };
  const sum = (all) => iter(all).reduce(add, 0n);
  const prod = (all) => iter(all).reduce(mul, 1n);
  const best = (better) => (all, key = (value) => value) => all.reduce((first, value) => (better(key(value), key(first)) ? value : first));
  const max = best((a, b) => a > b);
  const min = best((a, b) => a < b);
  max.parameters = min.parameters = ["all", "key"];
  const len = (all) => BigInt(iter(all).length);
  const zip = (all, others) => all.map((value, index) => [value, others[index]]);
  const enumerate = (all) => all.map((value, index) => [BigInt(index), value]);
  const reversed = (all) => [...all].reverse();
  const next = (all, other) => (all.length ? all[0] : other);
  const tuple = (all) => [...iter(all)];
  const set = (all) => new Set(iter(all));
  const fromkeys = (all) => new Map(iter(all).map((value) => [value, null]));
  const type = (value) => (isInt(value) ? int : Number);
  const str = (value) => `${value}`;
  const repr = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`);
  const thousands = (digits) => `${digits}`.replace(/\B(?=(\d{3})+(\.|$))/g, ",");
  const format = (value, spec) => thousands(spec === ",.2f" ? value.toFixed(2) : value);
  function int(value) {
    if (typeof value !== "string") return BigInt(value);
    if (!/^\s*[+-]?\d+(_\d+)*\s*$/.test(value)) throw new ValueError(value);
    return BigInt(value.replace(/[\s_+]/g, ""));
  }
  const named = (dict) => Object.fromEntries([...dict].map(([name, value]) => [camel(name), value]));
  const isClass = (callee) => Object.getOwnPropertyDescriptor(callee, "prototype")?.writable === false;

  /** Calls a function or makes an instance with arguments by position and by name. */
  function call(callee, given, names) {
    if (callee === replace) return replace(given[0], names);
    const all = [...given];
    for (const [name, value] of Object.entries(names)) {
      if (!callee.parameters.includes(name)) throw new TypeError(`${callee.name} has no parameter ${name}`);
      all[callee.parameters.indexOf(name)] = value;
    }
    return isClass(callee) ? new callee(...all) : callee(...all);
  }
  const replace = (old, names) => call(old.constructor, [], { ...old, ...names });

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
