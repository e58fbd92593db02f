// Python's operators and built-in functions, for Python that python_to_javascript.py translates.

// ---- Operators. Floats are Number; whole numbers are what the function `whole` makes, BigInt or Number.
const isInt = (value) => typeof value === "bigint";
const exact = (a, b) => isInt(a) && isInt(b);
const add = (a, b) => (exact(a, b) || typeof a === "string" ? a + b : Array.isArray(a) ? [...a, ...b] : Number(a) + Number(b));
const sub = (a, b) => (a instanceof Set ? new Set([...a].filter((value) => !b.has(value))) : exact(a, b) ? a - b : Number(a) - Number(b));
const mul = (a, b) => (exact(a, b) ? a * b : Array.isArray(b) ? Array(Number(a)).fill(b).flat() : Number(a) * Number(b));
const div = (a, b) => Number(a) / Number(b);
const pow = (a, b) => (exact(a, b) ? a ** b : Number(a) ** Number(b));
const floordiv = (a, b) => (exact(a, b) ? a / b - (a % b !== 0n && a < 0n !== b < 0n ? 1n : 0n) : Math.floor(a / b));
const divmod = (a, b) => [floordiv(a, b), mod(a, b)];
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
const item = (all, key) => (all instanceof Map ? all.get(key) : Array.isArray(all) ? all.at(Number(key)) : all[Number(key)]);
const getattr = (object, name, other) => object[camel(name)] ?? other;
const setattr = (object, name, value) => { object[camel(name)] = value; };
const sum = (all) => iter(all).reduce(add, whole(0));
const prod = (all) => iter(all).reduce(mul, whole(1));
const best = (better) => (all, key = (value) => value) => all.reduce((first, value) => (better(key(value), key(first)) ? value : first));
const max = best((a, b) => a > b);
const min = best((a, b) => a < b);
max.parameters = min.parameters = ["all", "key"];
const len = (all) => whole(iter(all).length);
const zip = (all, others) => all.map((value, index) => [value, others[index]]);
const enumerate = (all) => all.map((value, index) => [whole(index), value]);
const reversed = (all) => [...all].reverse();
const next = (all, other) => (all.length ? all[0] : other);
const range = (first, end, step = 1) => {
  const [from, to] = end === undefined ? [0, Number(first)] : [Number(first), Number(end)];
  return Array.from({ length: Math.max(0, Math.ceil((to - from) / Number(step))) }, (_, index) => whole(from + index * Number(step)));
};
const list = (all) => [...iter(all)];
const any = (all) => iter(all).some(truth);
const all = (values) => iter(values).every(truth);
const float = Number;
const abs = (value) => (value < 0 ? -value : value);
const { cos, sqrt, log2, exp, expm1 } = Math;
const math = { pi: Math.PI, inf: Infinity, nan: NaN };
const tuple = (all) => [...iter(all)];
const set = (all) => new Set(iter(all));
const fromkeys = (all) => new Map(iter(all).map((value) => [value, null]));
const type = (value) => (isInt(value) ? int : Number);
const str = (value) => `${value}`;
const repr = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`);
const thousands = (digits) => `${digits}`.replace(/\B(?=(\d{3})+(\.|$))/g, ",");
const format = (value, spec) => thousands(spec === ",.2f" ? value.toFixed(2) : value);
function int(value) {
  if (typeof value !== "string") return whole(typeof value === "number" ? Math.trunc(value) : value);
  if (!/^\s*[+-]?\d+(_\d+)*\s*$/.test(value)) throw new ValueError(value);
  return whole(value.replace(/[\s_+]/g, ""));
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
