/* The index: how text becomes its terms, the same when the site is built, in Node.js, as when somebody searches, and how
   a question finds its answers.

   A word may have joints: all_reduce, optimizer.step, ZeRO-3, GradScaler. It is found whole and by its parts, and whole
   means without the joints, so that all_reduce, all-reduce and allreduce are one. */
(() => {
  "use strict";
  const WORD = /[\p{L}\p{N}]+(?:[_.,\-–][\p{L}\p{N}]+)*/gu;
  const NUMBER = /^\d+([.,]\d+)*$/;
  const JOINT = /[^\p{L}\p{N}]+|(?<=\p{Ll}{3})(?=\p{Lu}\p{Ll}{2})/u;
  const SMALL = new Set(
    ("a an and are as at be but by can do does for from has have how i if in into is it its no not of on or so than " +
      "that the their them then there they this to was we what when where which who why will with you your").split(" "));
  const WEIGHTS = { chapter: 1.2, lab: 1.2, page: 1, notebook: 0.7, code: 0.6, claim: 0.35, source: 0.3 }; // by kind

  /** The terms of a word: first the whole, then its parts. */
  const known = new Map(); // a text repeats its words
  function termsOf(word) {
    if (!known.has(word)) known.set(word, split(word));
    return known.get(word);
  }
  function split(word) {
    const text = word.normalize("NFKC").toLowerCase();
    if (NUMBER.test(text)) return [text.replaceAll(",", "")];
    const parts = word.normalize("NFKC").split(JOINT).map((part) => part.toLowerCase());
    return parts.length > 1 ? [parts.join(""), ...parts] : parts;
  }

  /** Each word of a text with its place and its terms. */
  const words = (text) =>
    Array.from(text.matchAll(WORD), ({ 0: word, index: start }) =>
      ({ start, end: start + word.length, terms: termsOf(word) }));

  /** The words of a text that are among some terms. */
  const hits = (text, terms) => words(text).filter((word) => word.terms.some((term) => terms.has(term)));

  const options = {
    fields: ["title", "page", "text"],
    tokenize: (text) => text.match(WORD) ?? [],
    processTerm: (word) => termsOf(word).filter((term) => !SMALL.has(term)),
  };

  /** The documents of MiniSearch, of the pages and entries of search-data.js. A claim's title is no title, but a slug. */
  function documents({ pages, entries }) {
    return entries.map(([page, , title, text], id) => {
      const [, name, kind] = pages[page];
      return kind === "claim" ? { id, page: name, text: `${title} ${text}` } : { id, page: name, title, text };
    });
  }

  /** What to ask: each word, begun or whole or misspelled a little, or, of one with joints, exactly its parts. */
  function question(text) {
    const all = words(text).map(({ terms }) => terms);
    const said = all.filter(([whole]) => !SMALL.has(whole));
    const exactly = { combineWith: "AND", prefix: false, fuzzy: false };
    return (said.length ? said : all).map(([whole, ...parts]) =>
      parts.length ? { combineWith: "OR", queries: [whole, { ...exactly, queries: parts }] } : whole);
  }

  /** The terms to mark: where all_reduce was found, "all" means nothing. */
  function worthMarking(found, text) {
    const terms = new Set(found);
    for (const { terms: [whole, ...parts] } of words(text)) {
      if (found.some((term) => term.startsWith(whole))) parts.forEach((part) => terms.delete(part));
    }
    return terms;
  }

  /** Entries with their scores and the terms that were found in them, best first: with all words, or else with some. */
  function find({ pages, entries, index }, text) {
    const queries = question(text);
    if (!queries.length) return [];
    const ways = {
      boost: { title: 4, page: 2 },
      boostDocument: (id) => WEIGHTS[pages[entries[id][0]][2]] * (entries[id][1] ? 1 : 1.3),
      prefix: (term) => term.length > 1,
      fuzzy: (term) => (term.length > 3 && !/\d/.test(term) ? 0.2 : false), // bf16 is no misspelled fp16
      weights: { prefix: 0.5, fuzzy: 0.2 },
    };
    let found = index.search({ combineWith: "AND", queries }, ways);
    if (!found.length) found = index.search({ combineWith: "OR", queries }, ways);
    const literal = text.trim().toLowerCase(); // what stands somewhere letter by letter is meant
    const there = (entry, field, factor) => (entry[field].toLowerCase().includes(literal) ? factor : 1);
    const score = (one) => one.score * there(entries[one.id], 2, 2) * there(entries[one.id], 3, 1.5);
    return found
      .map((one) => ({ entry: entries[one.id], terms: worthMarking(one.terms, text), score: score(one) }))
      .sort((one, other) => other.score - one.score);
  }

  globalThis.rankzeroIndex = { documents, find, hits, options };
})();
