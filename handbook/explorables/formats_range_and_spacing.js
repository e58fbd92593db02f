/* A floating-point number, bit by bit, in six formats. */
const bitOf = (bits, place) => Math.floor(bits / 2 ** place) % 2;
const start = { format: "bf16", bits: 0x3f80 };

/** The number that the bits encode, and the next number above it in magnitude. */
function compute({ format, bits }) {
  const [exponentBits, fractionBits] = data[format];
  const kept = bits % 2 ** (1 + exponentBits + fractionBits);
  const value = valueOfBits(kept, ...data[format]);
  return { kept, value, next: valueOfBits(kept + 1, ...data[format]) };
}

/** The bits of special numbers of a format. */
function special(format) {
  const [exponentBits, fractionBits] = data[format];
  const top = 2 ** (exponentBits + fractionBits) - 1;
  const largest = [0, 1, 2 ** fractionBits].map((less) => top - less).find((bits) => Number.isFinite(valueOfBits(bits, ...data[format])));
  return { 1: (2 ** (exponentBits - 1) - 1) * 2 ** fractionBits, largest, "smallest normal": 2 ** fractionBits, smallest: 1 };
}
const exactly = (value) => (Number.isFinite(value) && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3) && value ? value.toExponential(4) : `${Number(value.toPrecision(8))}`).replace("-", "−");

const explorable = {
  guess: {
    question: "The number after 1 in bf16, which has 8 exponent and 7 fraction bits, is 1.0078. What is the number after 256?",
    unit: "",
    answer: () => compute({ format: "bf16", bits: special("bf16")[1] + 8 * 128 }).next,
    why: "The distance between neighbors doubles with each power of two: 2⁻⁷ at 1, 2 at 256. So 256 + 1 is 256 in bf16.",
  },
  controls: [
    { name: "format", label: "Format", options: Object.keys(data), sets: (format) => ({ bits: special(format)[1] }) },
    { name: "bits", hidden: true, samples: [0, 1, 2, 3, 5, 64, 126, 127, 200, 255, 1024, 0x3f80, 0x7bff, 0x7c00, 0x7f80, 0xffff, 0x3f800001, 0x7f7fffff, 0xc0490fdb] },
  ],
  start,
  compute,

  draw({ format }, { kept, value }, width, change) {
    const [exponentBits, fractionBits] = data[format];
    const total = 1 + exponentBits + fractionBits;
    const role = (place) => (place === total - 1 ? "sign" : place >= fractionBits ? "exponent" : "fraction");
    const buttons = Array.from({ length: total }, (_, index) => {
      const place = total - 1 - index;
      const bit = bitOf(kept, place);
      const label = `${bit}, ${role(place)} bit${role(place) === "sign" ? "" : `, worth 2 to the ${place - fractionBits}`}`;
      const attributes = { type: "button", class: `bit ${role(place)}`, "aria-pressed": bit === 1, "aria-label": label, "data-key": place };
      const button = Explorables.make("button", attributes, `${bit}`);
      button.addEventListener("click", () => change("bits", kept + (bit ? -1 : 1) * 2 ** place));
      return button;
    });
    const names = Object.entries(special(format)).map(([name, bits]) => {
      const button = Explorables.make("button", { type: "button", "data-key": name }, name);
      button.addEventListener("click", () => change("bits", bits));
      return button;
    });
    const near = Array.from({ length: 17 }, (_, index) => valueOfBits(Math.max(0, kept + index - 8), ...data[format])).filter(Number.isFinite);
    return [
      Explorables.legend({ sign: color.gray, exponent: color.orange, fraction: color.blue }),
      Explorables.make("div", { class: "bits" }, ...buttons),
      Explorables.make("p", { class: "choices" }, ...names),
      {
        height: 90, marginLeft: 12, marginRight: 12,
        x: { label: "neighbors in this format", ticks: near.includes(value) ? [value] : [], tickFormat: exactly },
        marks: [
          Plot.ruleX(near, { stroke: color.blue, strokeWidth: 1.5, insetTop: 4 }),
          Plot.dot([value].filter(Number.isFinite), { x: (at) => at, y: 0, r: 6, fill: color.orange }),
        ],
        y: { axis: null, domain: [-1, 1] },
      },
    ];
  },

  says({ format }, { kept, value, next }) {
    const [exponentBits, fractionBits] = data[format];
    const [exponent, fraction] = [Math.floor(kept / 2 ** fractionBits) % 2 ** exponentBits, kept % 2 ** fractionBits];
    const bias = 2 ** (exponentBits - 1) - 1;
    const formula = exponent ? `2^(${exponent} − ${bias}) × (1 + ${fraction}/${2 ** fractionBits})` : `2^(1 − ${bias}) × ${fraction}/${2 ** fractionBits}, subnormal`;
    const gap = Math.abs(next - value);
    return Number.isFinite(value)
      ? `${format}: ${exactly(value)} = ${kept >= 2 ** (exponentBits + fractionBits) ? "−" : ""}${formula}. ` +
        (Number.isFinite(gap) ? `The next number is ${exactly(gap)} away.` : "No larger number follows.")
      : `${format}: ${Number.isNaN(value) ? "NaN, not a number" : value > 0 ? "infinity" : "minus infinity"}.`;
  },
};
