"""Byte-pair tokens: merges learned from a text, word by word, and the tokens of any text."""

import heapq
import re
from collections import Counter, defaultdict
from itertools import pairwise

Pair = tuple[int, int]

WORD = re.compile(r"\s?\S+|\s+")  # no merge joins two words, so each different word is merged once


def learn_merges(text: str, count: int) -> list[Pair]:
    """Returns at most `count` merges in the order learned; merge i joins a pair of tokens into the token 256 + i.

    Tokens 0 to 255 are the bytes of UTF-8. Each merge joins the pair of neighbors within a word that is most frequent
    in `text`; of equally frequent pairs, the smallest. The list is shorter where no pair occurs twice any more.
    """
    counts = Counter(WORD.findall(text))
    words = [list(word.encode()) for word in counts]
    weights = list(counts.values())
    frequency: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)  # words in which a pair is, or was
    for index, word in enumerate(words):
        for pair in pairwise(word):
            frequency[pair] += weights[index]
            places[pair].add(index)
    heap = [(-number, pair) for pair, number in frequency.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while heap and len(merges) < count:
        number, best = heapq.heappop(heap)
        if -number != frequency[best]:
            continue  # an entry that a later merge has made outdated
        if -number < 2:
            break
        changed = set()
        for index in places.pop(best):
            before = words[index]
            words[index] = merged(before, best, 256 + len(merges))
            for sign, word in ((-1, before), (1, words[index])):
                for pair in pairwise(word):
                    frequency[pair] += sign * weights[index]
                    changed.add(pair)
                    places[pair].add(index)
        frequency[best] = 0
        for pair in changed - {best}:
            heapq.heappush(heap, (-frequency[pair], pair))
        merges.append(best)
    return merges


def merged(word: list[int], pair: Pair, token: int) -> list[int]:
    """Returns the tokens of a word with each `pair` replaced by `token`, from left to right."""
    result: list[int] = []
    place = 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            result.append(token)
            place += 2
        else:
            result.append(word[place])
            place += 1
    return result


class BytePairTokenizer:
    """The tokens of any text, by merges in the order in which they were learned."""

    def __init__(self, merges: list[Pair]) -> None:
        self.merges = merges
        self.rank = {pair: number for number, pair in enumerate(merges)}
        self._words: dict[str, list[int]] = {}  # tokens of the words seen so far

    @property
    def vocab_size(self) -> int:
        """V, the number of different tokens."""
        return 256 + len(self.merges)

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of `text`."""
        return [token for word in WORD.findall(text) for token in self._word(word)]

    def _word(self, word: str) -> list[int]:
        if word not in self._words:
            tokens = list(word.encode())
            while known := [self.rank[pair] for pair in pairwise(tokens) if pair in self.rank]:
                first = min(known)  # the merge that was learned first
                tokens = merged(tokens, self.merges[first], 256 + first)
            self._words[word] = tokens
        return self._words[word]
