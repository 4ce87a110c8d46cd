"""Scores ordered partitions from the bits of the sub-classifiers that their stages need.

A feature set is a row of 64-bit words (bit ``i % 64`` of word ``i // 64`` for feature ``i``). The
sub-classifier of a set is found in a hash table with open addressing: ``slots`` has a power of two
of entries, each the number of a component, or -1 if it is free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.moves.bits import popcount
from framework.arrays import Array, BoolArray, IntArray, WordArray, frozen
from framework.jit import copy, njit

_BLOCK = 4096  # records whose answers are written at a time: a multiple of 64
# columns of the counts that score() returns
CONCLUSIVE, RIGHT, COST, POSITIVE, FALSE_POSITIVE, NEGATIVE, STAGES, FAILED, LOSS = range(9)


class Rule(NamedTuple):
    """Which plane of a component says that a stage answers, and what errors cost, in fixed point.

    weights : int64 (error planes,), what a bit of each plane of errors costs.
    no_answer : int64, what a record without an answer costs.
    errors, sure : int, the first plane of errors, and the first plane of answers at a threshold.
    items : int, number of genes that are features; the others choose thresholds, one for all stages
        or one for each (without the last, if errors have costs). -1: all genes are features, and
        plane 0 has the answers of every stage.
    last : bool, whether confidences decide at chosen thresholds: then the last stage has one, too,
        plane 0 has the answers at the first threshold, and ``sure`` those at the others.
    """

    weights: IntArray
    no_answer: np.int64
    errors: int
    sure: int
    items: int
    last: bool

    @property
    def by_cost(self) -> bool:
        """Whether errors have costs."""
        return self.items >= 0 and not self.last


def by_confidence(items: int = -1, planes: int = 0) -> Rule:
    """Return the rule where errors have no costs.

    ``planes`` is the number of planes before those of the second threshold and further ones.
    """
    nothing = frozen(np.zeros(0, dtype=np.int64))
    return Rule(nothing, np.int64(0), planes, planes, items, items >= 0)


BY_CONFIDENCE = by_confidence()


class Held(NamedTuple):
    """The stage classifiers' answers in memory, found by their feature sets.

    slots : int64 (power of two,), the hash table.
    keys : uint64 (components, key words), the feature sets.
    bits : uint64 (components, planes, words), one bit per record; the planes are those of
        :func:`~algorithms.multistage.kernels.decisions.decide`.
    failed : bool (components,), whether a component could not be built.
    rule : Rule
    """

    slots: IntArray
    keys: WordArray
    bits: WordArray
    failed: BoolArray
    rule: Rule = BY_CONFIDENCE


class Charges(NamedTuple):
    """What features and stages cost, in fixed point.

    of_feature : int64 (d,)
    panel_of : int64 (d,), the panel of each feature, -1 where it has none.
    of_panel : int64 (m,), what is paid once for a panel, when the first of its features is.
    of_stage : what a record pays for each stage that it reaches.
    """

    of_feature: IntArray
    panel_of: IntArray
    of_panel: IntArray
    of_stage: int = 0


@njit
def _hash(key: Array) -> int:
    # SplitMix64's finaliser per word: sets that differ in one feature land far apart
    h = np.uint64(0x9E3779B97F4A7C15)
    for word in key:
        h ^= word
        h ^= h >> np.uint64(30)
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(27)
        h *= np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.int64(h >> np.uint64(1))  # type: ignore[return-value]


@njit
def find(slots: IntArray, keys: WordArray, key: WordArray) -> int:
    """Return the number of ``key`` among ``keys``, or ``-1 - slot`` with the free slot for it."""
    at = _hash(key) & (len(slots) - 1)  # linear probing; the table is at most half full
    while slots[at] >= 0:
        held = keys[slots[at]]
        same = True
        for w in range(len(key)):
            if held[w] != key[w]:
                same = False
                break
        if same:
            return slots[at]  # type: ignore[no-any-return]
        at = (at + 1) & (len(slots) - 1)
    return -1 - at


@njit
def insert(slots: IntArray, keys: WordArray, start: int, stop: int) -> None:
    """Enter the keys numbered ``start`` to ``stop - 1`` into the table; they must be new."""
    for number in range(start, stop):
        slots[-1 - find(slots, keys, keys[number])] = number


@njit
def _stages(x: Array) -> int:
    """Return the number of stages of a partition."""
    last = -1
    for stage in x:
        last = max(last, stage)
    return last + 1


@njit
def _prefix_keys(x: Array, stages: int | np.int64, out: WordArray) -> None:
    """Fill ``out`` (stages, words) with the features acquired up to each stage."""
    out[:] = np.uint64(0)
    for i in range(len(x)):
        if x[i] >= 0:
            out[x[i], i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    for s in range(1, stages):
        for w in range(out.shape[1]):
            out[s, w] |= out[s - 1, w]


@njit
def missing(X: Array, slots: IntArray, keys: WordArray) -> WordArray:
    """Return the feature sets that genomes ``X`` need and ``keys`` does not have.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, features)
        Ordered partitions without gaps; -1 = never acquired.
    slots, keys
        See :class:`Held`.

    Returns
    -------
    numpy.ndarray of uint64, shape (m, words)
        Each set once, in the order in which the genomes need them.
    """
    n, d = X.shape
    words = keys.shape[1]
    room = 64
    fresh = np.empty((room, words), dtype=np.uint64)
    table_here = np.full(4 * room, -1, dtype=np.int64)
    count = 0
    prefix = np.empty((d, words), dtype=np.uint64)
    for r in range(n):
        stages = _stages(X[r])
        _prefix_keys(X[r], stages, prefix[:stages])
        for s in range(stages):
            if find(slots, keys, prefix[s]) >= 0:
                continue
            at = find(table_here, fresh, prefix[s])
            if at >= 0:
                continue
            if count == room:
                room *= 2
                wider = np.empty((room, words), dtype=np.uint64)
                for i in range(count):
                    copy(fresh[i], wider[i])
                fresh = wider
                table_here = np.full(4 * room, -1, dtype=np.int64)
                insert(table_here, fresh, 0, count)
                at = find(table_here, fresh, prefix[s])
            copy(prefix[s], fresh[count])
            table_here[-1 - at] = count
            count += 1
    return fresh[:count].copy()


@njit
def _prices(x: Array, charges: Charges, begun: IntArray, price: IntArray) -> None:
    """Fill ``price`` (stages,) with what entering each stage costs.

    ``begun`` (panels,) is scratch for the first stage that has a feature of the panel.
    """
    costs, panel_of, panel_costs, of_stage = charges
    d = len(x)
    for j in range(len(price)):
        price[j] = of_stage
    for i in range(d):
        if x[i] >= 0:
            price[x[i]] += costs[i]
    for g in range(len(begun)):
        begun[g] = d
    for i in range(d if len(panel_costs) else 0):
        if x[i] >= 0 and panel_of[i] >= 0:
            begun[panel_of[i]] = min(begun[panel_of[i]], x[i])
    for g in range(len(panel_costs)):
        if begun[g] < d:
            price[begun[g]] += panel_costs[g]


@njit
def _stop_plane(x: Array, s: int, stages: int, rule: Rule) -> int:
    """Return the plane that says which records stage ``s`` of a genome answers."""
    if rule.items < 0 or (s == stages - 1 and not rule.last):
        return 0
    levels = len(x) - rule.items
    level = int(x[rule.items + min(s, levels - 1)]) if levels else 0
    if rule.last:
        return rule.sure + level - 1 if level else 0
    return rule.sure + level


@njit
def score(
    X: Array,
    held: Held,
    first_word: int,
    charges: Charges,
    everyone: WordArray,
    negatives: WordArray,
    unknown: WordArray | None,
    labels: IntArray | None = None,
    classes: int = 0,
) -> tuple[IntArray, IntArray, IntArray]:
    """Send every record through the stages of each partition and count the results.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, d)
    held : Held
        Has a component for every set that ``X`` needs. A genome that needs one that failed is
        marked in column FAILED, and its other counts mean nothing.
    first_word : int
        Where in each plane the words of these records begin.
    everyone, negatives : numpy.ndarray of uint64, shape (words,)
        A bit for every record, and one for those whose true class is not the positive one.
    unknown : numpy.ndarray of uint64, shape (features, words), optional
        A bit for each record that lacks a feature. It stops without an answer before the stage that
        asks for it, and does not pay for that stage.
    labels : numpy.ndarray of int64, shape (records,), optional
        The true class of each record, below ``classes``, if results are to be counted by it, too.

    Returns
    -------
    counts : numpy.ndarray of int64, shape (n, 9)
        The number of answered records, of right answers, the total cost, the number of answers that
        are positive, of those that are falsely so, and of answered negatives, the number of stages,
        whether a component failed, and the cost of errors and of records without an answer. Whole
        numbers are exact, whatever the order in which they are added.
    answered, right : numpy.ndarray of int64, shape (n, classes)
        Number of answered records of each true class, and of those that are answered rightly.

    Notes
    -----
    O(d + stages * words) per genome, and O(records) more if there are labels. The objectives of
    Section 2.2 of the EMSCO paper follow.
    """
    slots, keys, bits, failed, rule = held
    n, d = len(X), X.shape[1] if rule.items < 0 else rule.items
    words = len(everyone)
    with_positive = (bits.shape[1] if rule.items < 0 else rule.errors) > 2
    counts = np.zeros((n, 9), dtype=np.int64)
    answered = np.zeros((n, classes), dtype=np.int64)
    right = np.zeros((n, classes), dtype=np.int64)
    prefix = np.empty((d, keys.shape[1]), dtype=np.uint64)
    price = np.empty(d, dtype=np.int64)
    begun = np.empty(len(charges.of_panel), dtype=np.int64)
    waiting = np.empty(words, dtype=np.uint64)
    all_records = np.int64(0)
    for w in range(words):
        all_records += popcount(everyone[w])
    for r in range(n):
        stages = _stages(X[r, :d])
        _prefix_keys(X[r, :d], stages, prefix[:stages])
        _prices(X[r, :d], charges, begun, price[:stages])
        copy(everyone, waiting)
        left = all_records
        row = counts[r]
        row[STAGES] = stages
        for s in range(stages):
            component = find(slots, keys, prefix[s])
            if failed[component]:
                row[FAILED] = 1
                break
            if unknown is not None:
                left -= _stop(X[r, :d], s, unknown, waiting)
            row[COST] += left * price[s]  # every record that enters a stage pays for it
            planes = bits[component, :, first_word : first_word + words]
            stop = planes[_stop_plane(X[r], s, stages, rule)]
            # before _leave, which takes the records out of waiting
            if with_positive:
                _count_positive(waiting, stop, planes[2], negatives, row)
            if labels is not None:
                _count_classes(waiting, stop, planes[1], labels, answered[r], right[r])
            for p in range(len(rule.weights)):
                wrong = np.int64(0)
                for w in range(words):
                    wrong += popcount(waiting[w] & stop[w] & planes[rule.errors + p, w])
                row[LOSS] += rule.weights[p] * wrong
            left -= _leave(waiting, stop, planes[1], row)
        row[LOSS] += rule.no_answer * (all_records - row[CONCLUSIVE])
    return counts, answered, right


@njit
def record_answers(
    X: Array,
    held: Held,
    first_word: int,
    charges: Charges,
    labels: IntArray,
    names: Array,
    first: int,
    paid: Array,
    unknown: WordArray | None,
) -> tuple[Array, IntArray, IntArray, BoolArray]:
    """Send every record through the stages of each partition; return its answer and what it pays.

    Parameters
    ----------
    X, held, first_word, charges, unknown
        See :func:`score`.
    labels : numpy.ndarray of int64, shape (records,)
    names : numpy.ndarray of int16, shape (classes, 2^m)
        The class of the answer to a record, by its true class and by the number whose bits m planes
        have for it, the lowest bit first.
    first : int
        The first of these planes.
    paid : numpy.ndarray of int, shape (n, records)
        Filled with what each record pays.

    Returns
    -------
    codes : numpy.ndarray of int16, shape (n, records)
        The answer; -1 for none.
    lost : numpy.ndarray of int64, shape (n, records)
        What the error or the missing answer costs; shape (n, 0) where they have no costs.
    stages : numpy.ndarray of int64, shape (n,)
    failed : numpy.ndarray of bool, shape (n,)
        Whether a component failed; the rest of that row then means nothing.

    Notes
    -----
    O(d + stages * words + records) per genome. Words of bits are combined for 64 records at a time.
    At the end, the planes ``entered`` (how many stages a record entered, in binary) and ``done``
    (what the stage where it left says of it) are read as numbers, and tables give their meaning.
    """
    slots, keys, bits, failed, rule = held
    n, d = len(X), X.shape[1] if rule.items < 0 else rule.items
    records = len(labels)
    words, outputs = (records + 63) // 64, bits.shape[1] if rule.items < 0 else rule.sure
    by_cost, last = rule.items >= 0 and not rule.last, first + _width(names.shape[1] - 1)
    # the answer by true class, by the number in the planes and by whether there is an answer
    size = 2 * names.shape[1]
    called, row = np.full(len(names) * size, -1, dtype=np.int16), np.empty(records, dtype=np.uint64)
    for label in range(len(names)):
        copy(names[label], called[label * size + size // 2 : (label + 1) * size])
    for i in range(records):
        row[i] = labels[i] * size
    # of each record: whether it is answered, by what, how many stages it entered, each error
    kinds = len(rule.weights) if by_cost else 0
    block = min(_BLOCK, 64 * max(words, 1))
    numbers = np.empty((3 + kinds, block), dtype=np.uint16)
    answered, said, reached = numbers[0], numbers[1], numbers[2]
    lanes = np.empty(block // 8, dtype=np.uint64)
    codes = np.empty((n, records), dtype=np.int16)
    lost = np.empty((n, records if by_cost else 0), dtype=np.int64)
    stages, broken = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    done, waiting = np.empty((outputs, words), dtype=np.uint64), np.empty(words, dtype=np.uint64)
    entered = np.empty((_width(d), words), dtype=np.uint64)
    prefix = np.empty((d, keys.shape[1]), dtype=np.uint64)
    price, total = np.empty(d, dtype=np.int64), np.zeros(d + 1, dtype=np.int64)
    begun = np.empty(len(charges.of_panel), dtype=np.int64)
    for r in range(n):
        stages[r] = _stages(X[r, :d])
        _prefix_keys(X[r, :d], stages[r], prefix[: stages[r]])
        _prices(X[r, :d], charges, begun, price[: stages[r]])
        waiting[:] = ~np.uint64(0)
        done[:] = np.uint64(0)
        entered[:] = np.uint64(0)
        width = _width(stages[r])
        for s in range(stages[r]):
            total[s + 1] = total[s] + price[s]
            component = find(slots, keys, prefix[s])
            if failed[component]:
                broken[r] = True
                break
            if unknown is not None:
                _stop(X[r, :d], s, unknown, waiting)
            stop = _stop_plane(X[r], s, stages[r], rule)
            for w in range(words):
                here = waiting[w]
                if not here:
                    continue
                for b in range(width):
                    entered[b, w] &= ~here
                    if (s + 1) >> b & 1:
                        entered[b, w] |= here
                leaving = here & bits[component, stop, first_word + w]
                waiting[w] ^= leaving
                for p in range(outputs):
                    plane = bits[component, p, first_word + w]
                    done[p, w] = (done[p, w] & ~leaving) | (plane & leaving)
        for start in range(0, records, block):
            for k in range(3 + kinds):
                low, high = (0, 1) if k == 0 else (first, last)
                if k > 1:
                    low, high = (0, width) if k == 2 else (rule.errors + k - 3, rule.errors + k - 2)
                _numbers(entered if k == 2 else done, low, high, start, lanes, numbers[k])
            count = min(block, records - start)
            for i in range(count):
                number = said[i] + answered[i] * np.uint64(size // 2)
                codes[r, start + i] = called[row[start + i] + number]
                paid[r, start + i] = total[reached[i]]
            for i in range(count if by_cost else 0):
                loss = np.int64(0) if answered[i] else rule.no_answer
                for k in range(kinds):
                    loss += rule.weights[k] * np.int64(numbers[3 + k, i])
                lost[r, start + i] = loss
    return codes, lost, stages, broken


@njit
def _width(number: int) -> int:
    """Return the number of bits of a whole number, 0 for 0."""
    width = 0
    while number >> width:
        width += 1
    return width


@njit
def _numbers(
    planes: WordArray, first: int, last: int, start: int, lanes: WordArray, numbers: Array
) -> None:
    """Fill ``numbers`` (records,) from ``start`` on; their bits are in planes, the lowest first.

    ``start`` is a multiple of 64, ``lanes`` (records / 8,) is scratch: the numbers of eight records
    in the bytes of a word.
    """
    numbers[:] = 0
    for low in range(first, last, 8):
        lanes[:] = np.uint64(0)
        for p in range(low, min(low + 8, last)):
            place, octets = np.uint64(p - low), planes[p, start // 64 :].view(np.uint8)
            for i in range(min(len(lanes), len(octets))):
                # copy the byte into all lanes, keep bit i in lane i, move it to the lowest bit
                bits = np.uint64(octets[i]) * np.uint64(0x0101010101010101)
                bits &= np.uint64(0x8040201008040201)
                bits = (bits + np.uint64(0x7F7F7F7F7F7F7F7F)) >> np.uint64(7)
                lanes[i] |= (bits & np.uint64(0x0101010101010101)) << place
        of_lanes = lanes.view(np.uint8)
        for i in range(len(numbers)):
            numbers[i] |= np.uint16(of_lanes[i]) << np.uint16(low - first)


@njit
def _count_classes(
    waiting: WordArray,
    conclusive: WordArray,
    right: WordArray,
    labels: IntArray,
    answered_of: IntArray,
    right_of: IntArray,
) -> None:
    """Count the records that leave, and the right answers among them, by true class."""
    for w in range(len(waiting)):
        leaving = waiting[w] & conclusive[w]
        while leaving:
            # the lowest bit that is set; the bits below it number its record
            lowest = leaving & (~leaving + np.uint64(1))
            label = labels[64 * w + popcount(lowest - np.uint64(1))]
            answered_of[label] += 1
            right_of[label] += np.int64((right[w] & lowest) != 0)
            leaving ^= lowest


@njit
def _stop(x: Array, stage: int, unknown: WordArray, waiting: WordArray) -> int:
    """Remove the records that lack a feature of a stage from ``waiting``; return how many."""
    gone = np.int64(0)
    for i in range(len(unknown)):
        if x[i] == stage:
            for w in range(len(waiting)):
                lacking = waiting[w] & unknown[i, w]
                gone += popcount(lacking)
                waiting[w] ^= lacking
    return gone  # type: ignore[return-value]


@njit
def _leave(waiting: WordArray, conclusive: WordArray, right: WordArray, row: IntArray) -> int:
    """Remove the records that leave from ``waiting``; add them to the counts in ``row``.

    Returns how many leave.
    """
    gone = correct = np.int64(0)
    for w in range(len(waiting)):  # no branches: the loop becomes vector code
        leaving = waiting[w] & conclusive[w]
        gone += popcount(leaving)
        correct += popcount(leaving & right[w])
        waiting[w] ^= leaving
    row[CONCLUSIVE] += gone
    row[RIGHT] += correct
    return gone  # type: ignore[return-value]


@njit
def _count_positive(
    waiting: WordArray,
    conclusive: WordArray,
    positive: WordArray,
    negatives: WordArray,
    row: IntArray,
) -> None:
    """Count among the records that leave: positive answers, false ones, and true negatives."""
    called = false = answered = np.int64(0)
    for w in range(len(waiting)):
        leaving = waiting[w] & conclusive[w]
        yes = leaving & positive[w]
        called += popcount(yes)
        false += popcount(yes & negatives[w])
        answered += popcount(leaving & negatives[w])
    row[POSITIVE] += called
    row[FALSE_POSITIVE] += false
    row[NEGATIVE] += answered
