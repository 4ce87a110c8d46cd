"use strict";
// All designs of a run under other shares of the classes, costs of errors and prices of features, as
// `choose --prior, --costs, --prices` has them, from sums over the records of each class.
//
// A: the designs, as explore.py writes them; M: the run's metrics; other: what is other than searched:
// shares by class or null, prices by number of the feature, and what errors cost, by class.
function weighing(A, M, objectives, other) {
  const STEADY = 12; // digits: how sums are rounded on the way must not tell designs apart
  const [ACCURACY, ERRORS] = ["accuracy", "error_cost"].map((name) => M.findIndex((m) => m.name === name));
  const UNKNOWN = 0, OF_SOME = 2, SAME = 3; // how a metric follows; else it is a mean over records

  function counting() { // how much a record of each class counts, in whole numbers as the command has them
    if (!other.shares) return A.counts.map(() => 1);
    const units = Math.max(2 ** 24, 2 ** 16 * A.counts.reduce((s, x) => s + x, 0));
    return other.shares.map((s, c) => Math.max(1, Math.round((s / A.counts[c]) * units)));
  }
  function added(sums, weights) {
    const out = new Float64Array(A.n);
    weights.forEach((w, c) => { for (let i = 0, at = c * A.n; i < A.n; i++, at++) out[i] += w * sums[at]; });
    return out;
  }
  function costOfErrors(weights, noAnswer) { // of all records together, by design
    const answered = A.sums[A.below[ACCURACY]], right = A.sums[ACCURACY], out = new Float64Array(A.n);
    weights.forEach((w, c) => {
      for (let i = 0, at = c * A.n; i < A.n; i++, at++) out[i] += w * (answered[at] - right[at]) * other.errors[c] + w * (A.counts[c] - answered[at]) * noAnswer;
    });
    return out;
  }
  function priceChange(weights) {
    const p = A.prices, out = new Float64Array(A.n), come = [];
    const classes = A.counts.length, F = p.names.length;
    for (let s = 0; s < p.count; s++) come.push(added(p.reached.subarray(s * classes * A.n, (s + 1) * classes * A.n), weights));
    for (const [f, price] of other.prices) {
      const more = price - p.values[f];
      for (let i = 0; i < A.n; i++) { const s = p.steps[i * F + f]; if (s >= 0) out[i] += more * come[s][i]; }
    }
    return out;
  }
  function weighed(withErrors) { // every metric of every design; of errors by the other costs, where that is asked for
    const weights = counting(), total = weights.reduce((s, w, c) => s + w * A.counts[c], 0);
    const more = other.prices.size ? priceChange(weights) : null;
    return M.map((_, j) => {
      const kind = A.kinds[j];
      if (j === ERRORS && withErrors) return costOfErrors(weights, 0).map((v) => v / total);
      if (kind === SAME || (kind === UNKNOWN && !other.shares && A.same[j])) return A.same[j];
      if (kind === UNKNOWN) return new Float64Array(A.n).fill(NaN);
      const own = added(A.sums[j], weights);
      if (kind === OF_SOME) {
        const some = added(A.sums[A.below[j]], weights);
        return own.map((v, i) => v / Math.max(some[i], 1));
      }
      const moves = more && A.prices.metrics.includes(j);
      return own.map((v, i) => +((moves ? v + more[i] : v) / total).toPrecision(STEADY));
    });
  }
  function frontOf(values) { // positions of the designs that meet the constraints and that none dominates, by id
    const able = [], losses = objectives.map((j) => (M[j].sense === "max" ? values[j].map((v) => -v) : values[j]));
    for (let i = 0; i < A.n; i++) {
      const met = A.limits.every(([j, sign, limit]) => (sign === "<=" ? values[j][i] <= limit : values[j][i] >= limit));
      if (met && losses.every((of) => !Number.isNaN(of[i]))) able.push(i);
    }
    able.sort((a, b) => {
      for (const of of losses) if (of[a] !== of[b]) return of[a] - of[b];
      return a - b;
    });
    const kept = [], recent = [];
    const better = (a, b) => { for (const of of losses) if (of[a] > of[b]) return false; return true; };
    for (const i of able) { // who comes later dominates nobody before it
      let by = recent.findIndex((k) => better(k, i));
      if (by < 0) {
        const k = kept.find((k) => better(k, i));
        if (k === undefined) { kept.push(i); continue; }
        by = recent.push(k) - 1;
        if (recent.length > 24) { recent.shift(); by--; }
      }
      if (by > 0) [recent[by - 1], recent[by]] = [recent[by], recent[by - 1]];
    }
    return kept.sort((a, b) => a - b);
  }
  return { counting, costOfErrors, weighed, frontOf };
}
