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
  // Factor of an entry's score, per kind of page.
  const WEIGHTS = { chapter: 1.2, lab: 1.2, page: 1, notebook: 0.7, code: 0.6, claim: 0.35, source: 0.3 };

  const termCache = new Map(); // a text repeats its words
  /** The terms of a word: first the whole word, then its parts. */
  function termsOf(word) {
    if (!termCache.has(word)) termCache.set(word, split(word));
    return termCache.get(word);
  }
  function split(word) {
    const text = word.normalize("NFKC").toLowerCase();
    if (NUMBER.test(text)) return [text.replaceAll(",", "")];
    const parts = word.normalize("NFKC").split(JOINT).map((part) => part.toLowerCase());
    return parts.length > 1 ? [parts.join(""), ...parts] : parts;
  }

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

  /** Entries with scores and the terms to mark, best first: entries with all words of the text, or else with some. */
  function find({ pages, entries, index }, text) {
    const queries = queriesOf(text);
    if (!queries.length) return [];
    const searchOptions = {
      boost: { title: 4, page: 2 },
      boostDocument: (id) => WEIGHTS[pages[entries[id][0]][2]] * (entries[id][1] ? 1 : 1.3),
      prefix: (term) => term.length > 1,
      fuzzy: (term) => (term.length > 3 && !/\d/.test(term) ? 0.2 : false), // bf16 is not a misspelling of fp16
      weights: { prefix: 0.5, fuzzy: 0.2 },
    };
    let matches = index.search({ combineWith: "AND", queries }, searchOptions);
    if (!matches.length) matches = index.search({ combineWith: "OR", queries }, searchOptions);
    const verbatim = text.trim().toLowerCase(); // an entry that contains the text verbatim gets a higher score
    const factor = (entry, field, boost) => (entry[field].toLowerCase().includes(verbatim) ? boost : 1);
    const score = ({ id, score: base }) => base * factor(entries[id], 2, 2) * factor(entries[id], 3, 1.5);
    return matches
      .map((match) => ({ entry: entries[match.id], terms: termsToMark(match.terms, text), score: score(match) }))
      .sort((left, right) => right.score - left.score);
  }

  globalThis.rankzeroIndex = { documents, find, hits, options };
})();
