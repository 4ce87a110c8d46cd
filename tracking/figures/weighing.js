"use strict";
// All designs of a run under other shares of the classes, costs of errors and prices of features, as
// `choose --prior, --costs, --prices` has them, from sums over the records of each class.
//
// A: the designs, as explore.py writes them; M: the run's metrics; other: what is other than searched:
// shares by class or null, prices by number of the feature, and what errors cost, by class.
function weighing(A, M, objectives, other) {
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
  function steady(values) { // to 12 digits: how sums are rounded on the way must not tell designs apart
    let most = 0;
    for (const v of values) most = Math.max(most, Math.abs(v));
    const scale = most > 0 ? 10 ** (12 - Math.ceil(Math.log10(most))) : 1;
    return values.map((v) => Math.round(v * scale) / scale);
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
      return steady(own.map((v, i) => (moves ? v + more[i] : v) / total));
    });
  }
  function frontOf(values) { // positions of the designs that meet the constraints and that none dominates, by id
    const able = [], m = objectives.length, losses = new Float64Array(A.n * m); // row by row
    objectives.forEach((j, k) => {
      const sign = M[j].sense === "max" ? -1 : 1;
      for (let i = 0; i < A.n; i++) losses[i * m + k] = sign * values[j][i];
    });
    for (let i = 0; i < A.n; i++) {
      const met = A.limits.every(([j, sign, limit]) => (sign === "<=" ? values[j][i] <= limit : values[j][i] >= limit));
      if (met && objectives.every((j) => !Number.isNaN(values[j][i]))) able.push(i);
    }
    able.sort((a, b) => {
      for (let k = 0; k < m; k++) if (losses[a * m + k] !== losses[b * m + k]) return losses[a * m + k] - losses[b * m + k];
      return a - b;
    });
    const kept = [], recent = []; // the latter dominated others lately, and are asked first
    const beats = (a, b) => { for (let k = 0; k < m; k++) if (losses[a * m + k] > losses[b * m + k]) return false; return true; };
    const first = (some, i) => { for (let at = 0; at < some.length; at++) if (beats(some[at], i)) return at; return -1; };
    for (const i of able) { // who comes later dominates nobody before it
      let by = first(recent, i);
      if (by < 0) {
        const at = first(kept, i);
        if (at < 0) { kept.push(i); continue; }
        by = recent.push(kept[at]) - 1;
        if (recent.length > 24) { recent.shift(); by--; }
      }
      if (by > 0) [recent[by - 1], recent[by]] = [recent[by], recent[by - 1]];
    }
    return kept.sort((a, b) => a - b);
  }
  return { counting, costOfErrors, weighed, frontOf };
}
