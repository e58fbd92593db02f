/* Search ranking: splits text into terms, finds the entries that match a query, and orders them.
   Node.js runs this script while the site is built, and a browser runs it for each search, so that the index and the
   queries have the same terms.

   A word may have joints: all_reduce, optimizer.step, ZeRO-3, GradScaler. Its terms are its parts and the whole word
   without joints, so that all_reduce, all-reduce and allreduce share a term. */
(() => {
  "use strict";
  const WORD = /[\p{L}\p{N}]+(?:[_.,\-–][\p{L}\p{N}]+)*/gu;
  const NUMBER = /^\d+([.,]\d+)*$/;
  const JOINT = /[^\p{L}\p{N}]+|(?<=\p{Ll}{3})(?=\p{Lu}\p{Ll}{2})/u;
  const STOP_WORDS = new Set(
    ("a an and are as at be but by can do does for from has have how i if in into is it its no not of on or so than " +
      "that the their them then there they this to was we what when where which who why will with you your").split(" "));
  // Factor of an entry's score, per kind of page; and for the sections that repeat what other sections explain.
  const WEIGHTS = { chapter: 1.2, lab: 1.2, page: 1.5, notebook: 0.7, code: 0.6, claim: 0.35, source: 0.3 };
  const REPEATS = /^(Quiz|Problems|Takeaway|Next step|Interview Explanation|Further Reading)$/;

  const termCache = new Map(); // a text repeats its words
  /** The terms of a word: first the whole word, then its parts. */
  function termsOf(word) {
    if (!termCache.has(word)) termCache.set(word, split(word));
    return termCache.get(word);
  }
  function split(word) {
    const text = word.normalize("NFKC").toLowerCase();
    if (NUMBER.test(text)) return [text.replaceAll(",", "")];
    const parts = word.normalize("NFKC").split(JOINT).map((part) => singular(part.toLowerCase()));
    return parts.length > 1 ? [parts.join(""), ...parts] : parts;
  }
  /** A word without the s of the plural, so that GPUs and GPU are one term. */
  const singular = (word) => (STOP_WORDS.has(word) ? word : word.replace(/(?<=\p{L}{2}[^aiosu]|[cgt]pu)s$/u, ""));

  /** Each word of a text with its position and its terms. */
  const words = (text) =>
    Array.from(text.matchAll(WORD), ({ 0: word, index: start }) =>
      ({ start, end: start + word.length, terms: termsOf(word) }));

  /** The words of a text that have one of the `terms`. */
  const hits = (text, terms) => words(text).filter((word) => word.terms.some((term) => terms.has(term)));

  const options = {
    fields: ["title", "page", "text"],
    tokenize: (text) => text.match(WORD) ?? [],
    processTerm: (word) => termsOf(word).filter((term) => !STOP_WORDS.has(term)),
  };

  /** MiniSearch's documents, from the pages and entries of search-data.js. A claim's slug is text, not a title. */
  function documents({ pages, entries }) {
    return entries.map(([page, , title, text], id) => {
      const [, name, kind] = pages[page];
      return kind === "claim" ? { id, page: name, text: `${title} ${text}` } : { id, page: name, title, text };
    });
  }

  /** One query per word of the text: the whole word, or, for a word with joints, all of its parts, spelled exactly. */
  function queriesOf(text) {
    const allWords = words(text).map(({ terms }) => terms);
    const significant = allWords.filter(([whole]) => !STOP_WORDS.has(whole));
    const exact = { combineWith: "AND", prefix: false, fuzzy: false };
    return (significant.length ? significant : allWords).map(([whole, ...parts]) =>
      parts.length ? { combineWith: "OR", queries: [whole, { ...exact, queries: parts }] } : whole);
  }

  /** The terms to mark in an entry: if the whole word all_reduce matched, its part "all" is not marked. */
  function termsToMark(matchedTerms, text) {
    const terms = new Set(matchedTerms);
    for (const { terms: [whole, ...parts] } of words(text)) {
      if (matchedTerms.some((term) => term.startsWith(whole))) parts.forEach((part) => terms.delete(part));
    }
    return terms;
  }

  /** Whether an entry has all parts of a word with joints, such as all_reduce, and nowhere one after the other. */
  function hasPartsApart(matchedTerms, text, entryText) {
    return words(text).some(({ terms: [whole, ...parts] }) =>
      parts.length && parts.every((part) => matchedTerms.includes(part)) &&
      !matchedTerms.some((term) => term.startsWith(whole)) &&
      !new RegExp(parts.join("[^\\p{L}\\d]+"), "iu").test(entryText));
  }

  /** The text, and the text in the pages' words: a page says "out of memory" where a learner says "OOM". */
  function variants(text, synonyms) {
    const spelled = ` ${words(text).map(({ terms: [whole] }) => whole).join(" ")} `;
    const phrases = Object.keys(synonyms).filter((phrase) => spelled.includes(` ${phrase} `));
    const others = phrases.flatMap((phrase) =>
      synonyms[phrase].map((other) => spelled.replace(` ${phrase} `, ` ${other} `).trim()));
    return [text.trim(), ...others];
  }

  /** Whether a text looks like a name in code, such as train_step or optimizer.step(). */
  const isNameOf = (text) => !/\s/.test(text) && JOINT.test(text);

  /** The matches of one variant, with scores. */
  function findVariant({ pages, entries, index }, text, combineWith) {
    const queries = queriesOf(text);
    if (!queries.length) return [];
    const verbatim = text.toLowerCase(); // an entry that contains the text verbatim gets a higher score
    const contains = (entry, field, boost) => (entry[field].toLowerCase().includes(verbatim) ? boost : 1);
    const isName = isNameOf(text);
    const weight = (id) => {
      const [page, anchor, title] = entries[id];
      const minor = REPEATS.test(title) || (!isName && title.includes("_")); // a heading before a function's name
      return WEIGHTS[pages[page][2]] * (anchor ? 1 : 1.3) * (minor ? 0.4 : 1);
    };
    const matches = index.search({ combineWith, queries }, {
      boost: { title: 4, page: 2 },
      boostDocument: weight,
      prefix: (term) => term.length > 1,
      fuzzy: (term) => (term.length > 3 && !/\d/.test(term) ? 0.2 : false), // bf16 is not a misspelling of fp16
      weights: { prefix: 0.5, fuzzy: 0.2 },
    });
    const isMatch = ({ id, terms }) => !hasPartsApart(terms, text, `${entries[id][2]} ${entries[id][3]}`);
    return matches.filter(isMatch).map(({ id, terms, score, queryTerms }) => {
      const entry = entries[id];
      const share = Math.min(1, queryTerms.length / queries.length); // of the text's words
      const total = (score / queries.length) * share * contains(entry, 2, 2) * contains(entry, 3, 1.5);
      return { entry, terms: termsToMark(terms, text), score: total };
    });
  }

  /** Entries with scores and the terms to mark, best first: entries with all words of the text, or else with some.
      Source files come last, unless the text is the name of a file or function, such as train_step. */
  function find(data, text) {
    const { pages, synonyms } = data;
    const texts = variants(text, synonyms);
    const findAll = (combineWith) => texts.flatMap((variant) => findVariant(data, variant, combineWith));
    let matches = findAll("AND");
    if (!matches.length) matches = findAll("OR");
    const best = new Map();
    for (const match of matches) {
      if (!(best.get(match.entry)?.score >= match.score)) best.set(match.entry, match);
    }
    const isName = isNameOf(text.trim());
    const isLate = ({ entry: [page, , title] }) => pages[page][2] === "source" && !(isName && title === text.trim());
    return [...best.values()].sort((left, right) => isLate(left) - isLate(right) || right.score - left.score);
  }

  globalThis.rankzeroIndex = { documents, find, hits, options };
})();
