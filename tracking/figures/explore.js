// The page that explores one front. All texts of the run reach the page as text nodes, never as HTML.
(function () {
  const D = JSON.parse(document.getElementById("front-data").textContent);
  const $ = (id) => document.getElementById(id);
  const BLUE = "#0072B2", ORANGE = "#D55E00", GREY = "#C3C8D0", INK = "#333";
  const QUICK = 600; // lines drawn at once while something moves; the rest follows when it rests
  const M = D.metrics, none = 65535;

  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out.buffer;
  }
  const floats = (text) => (text === null ? null : new Float64Array(bytes(text)));
  for (const m of M) for (const key of ["values", "test", "expected", "low", "high"]) m[key] = floats(m[key]);
  for (const s of D.settings) s.values = floats(s.values);
  const KINDS = { int8: Int8Array, int32: Int32Array, float32: Float32Array };
  const n = D.n, ids = floats(D.ids), firm = floats(D.firm), tied = floats(D.tied);
  const draws = D.draws && { ...D.draws, data: new Uint16Array(bytes(D.draws.data)) };
  const genes = D.genes && { ...D.genes, data: new KINDS[D.genes.type](bytes(D.genes.data)) };
  const objectives = D.objectives;
  const state = { lo: M.map(() => -Infinity), hi: M.map(() => Infinity), sure: 0, rule: "knee", id: null, x: D.x, y: D.y };
  const pass = new Uint8Array(n), share = new Float32Array(n).fill(NaN);
  let left = [], chosen = -1, scores = null, start = D.chosen;

  function make(tag, text, attributes) {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = text;
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    return node;
  }
  function digits(v) {
    if (v === null || Number.isNaN(v)) return "-";
    const size = Math.abs(v);
    if (size >= 1000 && size < 1e15) return Math.round(v).toLocaleString("en-US");
    return size !== 0 && (size < 1e-4 || size >= 1e15) ? v.toExponential(3) : String(+v.toPrecision(4));
  }
  const span = (low, high) => (digits(low) === digits(high) ? digits(low) : `${digits(low)} to ${digits(high)}`);
  const rounded = (v) => +v.toPrecision(4);
  const loss = (j, i) => (M[j].sense === "max" ? -M[j].values[i] : M[j].values[i]);
  for (const m of M) {
    m.least = Infinity; m.greatest = -Infinity;
    for (const v of m.values) if (Number.isFinite(v)) { m.least = Math.min(m.least, v); m.greatest = Math.max(m.greatest, v); }
    if (m.least > m.greatest) m.least = m.greatest = 0;
    m.log = m.log && m.least > 0;
  }
  const at = (m, v) => { // where a value lies between the least and the greatest, 0 to 1
    if (m.greatest === m.least) return 0.5;
    return m.log ? Math.log(v / m.least) / Math.log(m.greatest / m.least) : (v - m.least) / (m.greatest - m.least);
  };
  const value = (m, t) => (m.log ? m.least * Math.pow(m.greatest / m.least, t) : m.least + t * (m.greatest - m.least));

  // ---- what is selected and chosen
  const limited = () => M.map((_, j) => j).filter((j) => state.lo[j] > -Infinity || state.hi[j] < Infinity);

  function shares(limits) {
    const known = limits.map((j) => draws.metrics.indexOf(j));
    const B = draws.count;
    if (!limits.length || known.some((k) => k < 0)) { share.fill(NaN); return; }
    const bounds = known.map((k, q) => {
      const span = (draws.high[k] - draws.low[k]) / (none - 1) || 1;
      const { values, expected } = M[limits[q]];
      const luck = values.map((v, i) => (expected && Number.isFinite(expected[i]) ? (v - expected[i]) / span : 0));
      return [k * n * B, (state.lo[limits[q]] - draws.low[k]) / span - 0.5, (state.hi[limits[q]] - draws.low[k]) / span + 0.5, luck];
    });
    const data = draws.data;
    for (let i = 0; i < n; i++) {
      let held = 0;
      for (let b = 0; b < B; b++) {
        let all = 1;
        for (let q = 0; q < bounds.length && all; q++) {
          const v = data[bounds[q][0] + i * B + b];
          const moved = v - bounds[q][3][i]; // to what to expect of the solution
          all = v !== none && moved >= bounds[q][1] && moved <= bounds[q][2] ? 1 : 0;
        }
        held += all;
      }
      share[i] = held / B;
    }
  }
  function scoreOf() {
    const low = [], span = [];
    const scaled = (j, i) => (loss(j, i) - low[j]) / span[j];
    const range = (j) => {
      low[j] = Infinity; let high = -Infinity;
      for (const i of left) { low[j] = Math.min(low[j], loss(j, i)); high = Math.max(high, loss(j, i)); }
      span[j] = high > low[j] ? high - low[j] : 1;
    };
    const [kind, name] = [state.rule.split(":")[0], state.rule.slice(5)];
    if (kind === "best") { const j = +name; return (i) => loss(j, i); }
    if (kind === "costs") {
      const c = costs(), [fp, fn] = D.rates;
      if (!c) return null;
      return (i) => {
        let rest = 0;
        for (const [j, price] of c.prices) rest += price * M[j].values[i];
        return c.prior * c.fn * M[fn].values[i] + (1 - c.prior) * c.fp * M[fp].values[i] + rest;
      };
    }
    if (kind === "weights") {
      const w = amounts("w"), total = w.reduce((s, [, x]) => s + x, 0);
      if (!(total > 0)) return null;
      w.forEach(([j]) => range(j));
      return (i) => w.reduce((s, [j, x]) => s + x * scaled(j, i), 0);
    }
    objectives.forEach(range);
    return (i) => Math.sqrt(objectives.reduce((s, j) => s + scaled(j, i) ** 2, 0));
  }
  const number = (id) => { const v = parseFloat($(id).value); return Number.isFinite(v) && v >= 0 ? v : NaN; };
  const amounts = (prefix) => M.map((_, j) => [j, $(prefix + j) ? number(prefix + j) : NaN]).filter(([, x]) => x > 0);
  function costs() {
    const c = { fp: number("cost-fp"), fn: number("cost-fn"), prior: number("prior"), prices: amounts("p") };
    const good = c.fp >= 0 && c.fn >= 0 && c.prior >= 0 && c.prior <= 1 && (c.fp > 0 || c.fn > 0 || c.prices.length);
    return good ? c : null;
  }
  function compute() {
    const limits = limited();
    if (draws) shares(limits);
    left = [];
    for (let i = 0; i < n; i++) {
      let ok = 1;
      for (const j of limits) { const v = M[j].values[i]; if (!(v >= state.lo[j] && v <= state.hi[j])) { ok = 0; break; } }
      if (ok && draws && state.sure > 0 && limits.length && !(share[i] >= state.sure / 100)) ok = 0;
      pass[i] = ok;
      if (ok) left.push(i);
    }
    const score = left.length ? scoreOf() : null;
    scores = null;
    if (score) {
      const s = new Float64Array(n);
      for (const i of left) s[i] = score(i);
      scores = s;
      left.sort((a, b) => {
        if (s[a] !== s[b]) return s[a] - s[b];
        for (const j of objectives) if (loss(j, a) !== loss(j, b)) return loss(j, a) - loss(j, b);
        return ids[a] - ids[b];
      });
    }
    if (state.id !== null) chosen = state.id;
    else if (start !== null) chosen = start;
    else chosen = score ? left[0] : -1;
  }

  // ---- the controls
  const rows = [];
  function limitRow(m, j) {
    const row = make("div", null, { class: "limit" });
    const better = m.sense === "max" ? "↑" : "↓";
    row.append(make("label", `${m.label}${m.unit ? ` (${m.unit})` : ""} ${better}`, { for: `s${j}`, title: m.text }));
    const slider = make("input", null, { type: "range", min: 0, max: 1000, id: `s${j}`, "aria-label": `${m.label}: ${m.sense === "max" ? "at least" : "at most"}` });
    const from = make("input", null, { type: "number", step: "any", placeholder: digits(m.least), "aria-label": `${m.label} at least` });
    const to = make("input", null, { type: "number", step: "any", placeholder: digits(m.greatest), "aria-label": `${m.label} at most` });
    const pair = make("span", null, { class: "pair" });
    pair.append(from, make("span", "to"), to);
    row.append(pair, slider);
    slider.value = m.sense === "max" ? 0 : 1000;
    slider.addEventListener("input", () => {
      const t = slider.value / 1000;
      if (m.sense === "max") state.lo[j] = t <= 0 ? -Infinity : rounded(value(m, t));
      else state.hi[j] = t >= 1 ? Infinity : rounded(value(m, t));
      changed(true);
    });
    const typed = () => {
      state.lo[j] = from.value === "" ? -Infinity : +from.value;
      state.hi[j] = to.value === "" ? Infinity : +to.value;
      changed(true);
    };
    from.addEventListener("change", typed); to.addEventListener("change", typed);
    rows.push({ j, slider, from, to });
    return row;
  }
  function showLimits() {
    for (const { j, slider, from, to } of rows) {
      const m = M[j], lo = state.lo[j], hi = state.hi[j], limit = m.sense === "max" ? lo : hi;
      if (document.activeElement !== from) from.value = lo > -Infinity ? lo : "";
      if (document.activeElement !== to) to.value = hi < Infinity ? hi : "";
      from.placeholder = digits(m.least); to.placeholder = digits(m.greatest);
      if (document.activeElement !== slider) {
        const t = Number.isFinite(limit) ? at(m, limit) : m.sense === "max" ? 0 : 1;
        slider.value = Math.round(1000 * Math.min(1, Math.max(0, t)));
      }
    }
  }
  const priced = (prefix, j) => {
    const label = make("label", M[j].label + " ");
    label.append(make("input", null, { type: "number", min: 0, step: "any", value: 0, id: prefix + j }));
    return label;
  };
  function controls() {
    M.forEach((m, j) => $(objectives.includes(j) ? "limits" : "more-limits").append(limitRow(m, j)));
    if (M.length === objectives.length) $("more").hidden = true;
    const rule = $("rule");
    rule.append(make("option", "nearest to the ideal point", { value: "knee" }));
    M.forEach((m, j) => rule.append(make("option", `best ${m.label}`, { value: `best:${j}` })));
    rule.append(make("option", "least weighted sum", { value: "weights" }));
    if (D.rates) rule.append(make("option", "least expected cost of errors", { value: "costs" }));
    M.forEach((m, j) => {
      if (objectives.includes(j)) $("weights").append(priced("w", j));
      if (D.rates && !D.rates.includes(j) && m.price) $("prices").append(priced("p", j));
    });
    objectives.forEach((j) => { $(`w${j}`).value = 1; });
    rule.addEventListener("change", () => { state.rule = rule.value; changed(true); });
    for (const input of document.querySelectorAll("#weights input, #costs input")) input.addEventListener("input", () => changed(true));
    const sure = $("sure");
    sure.disabled = !draws;
    $("sure-note").textContent = draws
      ? `An approximation: ${draws.count} of the resamples that choose --sure takes are in this page.`
      : "Not known: this run has no resamples of its records beside its front.";
    sure.addEventListener("input", () => { state.sure = +sure.value; changed(true); });
    for (const axis of ["x", "y"]) {
      M.forEach((m, j) => $(axis).append(make("option", m.label, { value: j })));
      $(axis).value = state[axis];
      $(axis).addEventListener("change", () => { state[axis] = +$(axis).value; changed(false); });
    }
    $("reset").addEventListener("click", () => {
      state.lo.fill(-Infinity); state.hi.fill(Infinity); state.sure = 0; sure.value = 0; state.id = null; start = D.chosen;
      state.rule = rule.value = "knee"; document.activeElement.blur(); changed(false);
    });
  }
  // ---- the chosen solution in words and boxes
  const shell = (t) => (/^[\w@%+=:,./-]+$/.test(t) ? t : `'${t.replace(/'/g, `'"'"'`)}'`);
  const python = (t) => JSON.stringify(t);
  function conditions() {
    const found = [];
    for (const j of limited()) {
      if (state.lo[j] > -Infinity) found.push(`${M[j].name}>=${state.lo[j]}`);
      if (state.hi[j] < Infinity) found.push(`${M[j].name}<=${state.hi[j]}`);
    }
    return found;
  }
  function commands() {
    const byId = state.id !== null || start !== null, where = byId ? [] : conditions();
    const words = ["paretolab", "choose", shell(D.directory)], args = [];
    for (const c of where) words.push("--where", shell(c));
    if (where.length) args.push(`where=[${where.map(python).join(", ")}]`);
    if (byId) { words.push("--id", String(ids[chosen])); args.push(`id=${ids[chosen]}`); }
    else {
      if (state.sure > 0 && where.length) { words.push("--sure", String(state.sure)); args.push(`sure=${state.sure}`); }
      const name = (j) => M[j].name, list = (w) => w.map(([j, x]) => `${name(j)}=${x}`).join(",");
      const dict = (w) => `{${w.map(([j, x]) => `${python(name(j))}: ${x}`).join(", ")}}`;
      if (state.rule.startsWith("best:")) {
        const m = name(+state.rule.slice(5));
        words.push("--best", shell(m)); args.push(`best=${python(m)}`);
      } else if (state.rule === "weights") { words.push("--weights", shell(list(amounts("w")))); args.push(`weights=${dict(amounts("w"))}`); }
      else if (state.rule === "costs") {
        const c = costs();
        words.push("--costs", `fp=${c.fp},fn=${c.fn}`, "--prior", String(c.prior));
        if (c.prices.length) words.push("--per-unit", shell(list(c.prices)));
        args.push(`costs={"fp": ${c.fp}, "fn": ${c.fn}}`, `prior=${c.prior}`);
        if (c.prices.length) args.push(`per_unit=${dict(c.prices)}`);
      } else { words.push("--knee"); args.push("knee=True"); }
    }
    words.push("--export", "models/chosen");
    return [words.join(" "), `import paretolab\n\nmodel = paretolab.RunResult(${python(D.directory)}).choose(${args.join(", ")})`];
  }
  function table(headings, lines) {
    const t = make("table"), head = make("tr");
    headings.forEach((h) => head.append(make("th", h)));
    t.append(head);
    for (const line of lines) { const tr = make("tr"); line.forEach((c) => tr.append(c instanceof Node ? c : make("td", c))); t.append(tr); }
    const box = make("div", null, { class: "wide" }); box.append(t);
    return box;
  }
  function design(i) {
    const box = make("div", null, { class: "design" });
    if (D.walk && i === D.model) {
      let total = 0;
      D.walk.stages.forEach((s, k) => {
        const stage = make("div", null, { class: "stage" });
        stage.append(make("b", `stage ${k + 1}`), make("span", s.features), make("span", s.facts, { class: "facts" }));
        const bar = make("div", null, { class: "bar" });
        const before = make("i"), here = make("i", null, { class: "leaves" });
        before.style.width = `${100 * total}%`; here.style.width = `${100 * s.share}%`;
        total += s.share; bar.append(before, here); stage.append(bar); box.append(stage);
      });
      box.append(make("p", D.walk.rejected));
      for (const c of D.walk.confusions) {
        const names = [...D.walk.classes, "no answer"];
        box.append(make("p", c.title), table(["true class", ...names], c.rows.map((r, k) => [D.walk.classes[k], ...r.map((x) => x.toLocaleString("en-US"))])));
      }
    } else if (genes) {
      const { names: known, data } = genes, d = known.length, byStage = new Map();
      for (let g = 0; g < d; g++) {
        const v = data[i * d + g];
        if (!byStage.has(v)) byStage.set(v, []);
        byStage.get(v).push(known[g]);
      }
      if (genes.type === "float32") {
        const order = known.map((_, g) => g).sort((a, b) => Math.abs(data[i * d + b]) - Math.abs(data[i * d + a])).slice(0, 12);
        box.append(table(["gene", "value"], order.map((g) => [known[g], digits(data[i * d + g])])));
        if (d > 12) box.append(make("p", `the 12 largest of ${d} genes`));
      } else {
        for (const v of [...byStage.keys()].sort((a, b) => a - b)) {
          const names = byStage.get(v), stage = make("div", null, { class: "stage" });
          const text = names.length > 15 ? `${names.slice(0, 15).join(", ")} and ${names.length - 15} more` : names.join(", ");
          stage.append(make("b", `gene ${v}`), make("span", text)); box.append(stage);
        }
        if (D.walk) box.append(make("p", "The command below writes this solution as a model, and this page then draws its stages."));
      }
    } else box.append(make("p", "The genes of so many solutions are not in this page; front.csv has them."));
    return box;
  }
  function panel() {
    const out = $("chosen"), code = $("commands");
    out.replaceChildren(); code.replaceChildren();
    if (chosen < 0) { out.append(make("p", left.length ? "Enter costs or weights: numbers from 0, one above it." : "No solution meets these limits.")); return; }
    const byId = state.id !== null || start !== null;
    const why = start !== null && state.id === null ? D.why : state.id !== null ? "picked by eye" : $("rule").selectedOptions[0].textContent;
    let text = `Solution ${ids[chosen]}, ${why}.`;
    if (byId && !pass[chosen]) text += " It does not meet the limits.";
    if (!byId && state.rule === "costs") text += ` Expected cost of a record: ${digits(scores[chosen])}.`;
    if (firm) text += ` On the front in ${Math.round(100 * firm[chosen])}% of resamples.`;
    if (Number.isFinite(share[chosen]) && limited().length) text += ` Its limits hold together in about ${Math.round(100 * share[chosen])}% of resamples.`;
    if (tied) { let k = -1; for (const t of tied) if (t === tied[chosen]) k++; text += k ? ` The records do not tell it apart from ${k} other solution${k === 1 ? "" : "s"}.` : ""; }
    out.append(make("p", `${text} Claimed is ${D.measured}.`));
    const told = M.some((m) => m.expected), tested = M.some((m) => m.test);
    const settings = D.settings.filter((s) => Number.isFinite(s.values[chosen]));
    out.append(table(["metric", "claimed", ...(told ? ["expected on new records", "95% range of the expectation"] : []), ...(tested ? ["on test records"] : [])],
      M.map((m) => [m.label, digits(m.values[chosen]),
        ...(told ? (m.expected ? [digits(m.expected[chosen]), span(m.low[chosen], m.high[chosen])] : ["", ""]) : []),
        ...(tested ? [m.test ? digits(m.test[chosen]) : ""] : [])]).concat(settings.map((s) => [s.label, digits(s.values[chosen])]))));
    out.append(design(chosen));
    const [command, line] = commands();
    for (const [what, t] of [["Command", command], ["Python", line]]) {
      const copy = make("button", "copy", { type: "button" });
      copy.addEventListener("click", () => { if (navigator.clipboard) navigator.clipboard.writeText(t).then(() => { copy.textContent = "copied"; }, () => {}); });
      const head = make("p", `${what} `); head.append(copy);
      code.append(head, make("pre", t));
    }
    if (!byId && state.rule === "costs") code.append(make("p", "The command also looks at classifiers that always give one label; one of them may cost less."));
  }
  function list() {
    const shown = left.slice(0, 12), show = objectives;
    const sureness = limited().length && draws ? ["limits hold"] : [];
    $("count").textContent = `${left.length.toLocaleString("en-US")} of ${n.toLocaleString("en-US")} solutions meet the limits.`;
    const lines = shown.map((i) => {
      const b = make("button", ids[i] + (i === chosen ? " *" : ""), { type: "button", "aria-label": `choose solution ${ids[i]}` });
      b.addEventListener("click", () => pick(i));
      const cell = make("td"); cell.append(b);
      return [cell, ...show.map((j) => digits(M[j].values[i])), ...D.settings.map((s) => (Number.isFinite(s.values[i]) ? digits(s.values[i]) : "")), ...sureness.map(() => (Number.isFinite(share[i]) ? `${Math.round(100 * share[i])}%` : "-"))];
    });
    $("list").replaceChildren(table(["id", ...show.map((j) => M[j].label), ...D.settings.map((s) => s.label), ...sureness], lines));
  }
  function pick(i) { state.id = i; start = null; changed(false); }

  // ---- drawing
  const scatter = $("scatter"), parallel = $("parallel"), grey = document.createElement("canvas");
  let greyKey = "", timer = 0, frame = 0, drag = null;
  function prepare(canvas, height) {
    const ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    canvas.style.height = `${height}px`;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0); g.clearRect(0, 0, width, height);
    g.font = "12px sans-serif"; g.lineWidth = 1;
    return { g, w: width, h: height };
  }
  const title = (m) => `${m.label}${m.unit ? ` (${m.unit})` : ""} ${m.sense === "max" ? "↑" : "↓"}`;
  const P = { l: 64, r: 14, t: 30, b: 40 };
  const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const SHADES = Array.from({ length: 33 }, (_, k) => { // from the worse end to the better one
    const t = k / 8, a = VIRIDIS[Math.min(3, Math.floor(t))], b = VIRIDIS[Math.min(3, Math.floor(t)) + 1], f = t - Math.min(3, Math.floor(t));
    return `rgb(${a.map((c, i) => Math.round(c + f * (b[i] - c))).join(",")})`;
  });
  const good = (m, v) => (m.sense === "max" ? at(m, v) : 1 - at(m, v)); // 1 is the better end
  function ticks(m) { // round numbers from the least to the greatest value
    const span = m.greatest - m.least;
    if (!(span > 0)) return [m.least];
    if (m.log) {
      const found = [], steps = m.greatest / m.least > 200 ? [1] : [1, 2, 5];
      for (let e = Math.floor(Math.log10(m.least)); e <= Math.log10(m.greatest); e++) for (const s of steps) found.push(s * Math.pow(10, e));
      return found.filter((v) => v >= m.least && v <= m.greatest);
    }
    const unit = Math.pow(10, Math.floor(Math.log10(span / 3))), step = [10, 5, 2.5, 2, 1].map((s) => s * unit).find((s) => span / s >= 3) || unit, found = [];
    for (let k = Math.ceil(m.least / step - 1e-9); k * step <= m.greatest + 1e-9 * span; k++) found.push(k * step);
    return found;
  }
  const place = (box) => {
    const X = M[state.x], Y = M[state.y], pad = 0.03;
    return [(v) => P.l + (pad + (1 - 2 * pad) * at(X, v)) * (box.w - P.l - P.r), (v) => box.h - P.b - (pad + (1 - 2 * pad) * at(Y, v)) * (box.h - P.t - P.b), pad];
  };
  function star(g, x, y) {
    g.fillStyle = ORANGE; g.strokeStyle = "#fff"; g.lineWidth = 1.5; g.beginPath();
    for (let k = 0; k < 10; k++) { const r = k % 2 ? 4 : 10, a = (Math.PI * k) / 5 - Math.PI / 2; g.lineTo(x + r * Math.cos(a), y + r * Math.sin(a)); }
    g.closePath(); g.fill(); g.stroke(); g.lineWidth = 1;
  }
  function drawScatter() {
    const box = prepare(scatter, Math.min(420, Math.max(280, scatter.parentElement.clientWidth * 0.6)));
    const { g, w, h } = box, [px, py] = place(box), X = M[state.x], Y = M[state.y];
    g.strokeStyle = "#E5E7EB"; g.fillStyle = INK; g.textAlign = "center";
    for (const v of ticks(X)) {
      g.beginPath(); g.moveTo(px(v), P.t); g.lineTo(px(v), h - P.b); g.stroke();
      g.fillText(digits(v), px(v), h - P.b + 15);
    }
    g.textAlign = "right";
    for (const v of ticks(Y)) {
      g.beginPath(); g.moveTo(P.l, py(v)); g.lineTo(w - P.r, py(v)); g.stroke();
      g.fillText(digits(v), P.l - 6, py(v) + 4);
    }
    const third = objectives.find((j) => j !== state.x && j !== state.y), C = third === undefined ? null : M[third];
    if (C) { // a third objective is the colour
      const wide = 90, left = w - P.r - wide - 52, ends = C.sense === "max" ? [C.least, C.greatest] : [C.greatest, C.least];
      SHADES.forEach((shade, k) => { g.fillStyle = shade; g.fillRect(left + (k * wide) / 33, 6, wide / 33 + 1, 10); });
      g.fillStyle = INK; g.textAlign = "right"; g.fillText(`${title(C)}  ${digits(ends[0])}`, left - 5, 15);
      g.textAlign = "left"; g.fillText(digits(ends[1]), left + wide + 5, 15);
    }
    g.textAlign = "center"; g.fillText(title(X), P.l + (w - P.l - P.r) / 2, h - 6);
    g.save(); g.translate(11, P.t + (h - P.t - P.b) / 2); g.rotate(-Math.PI / 2); g.fillText(title(Y), 0, 0); g.restore();
    const r = n > 3000 ? 1.5 : n > 300 ? 2.5 : 3.5;
    for (const on of [0, 1]) { // hollow where limits are broken; of many solutions there is no room for that
      g.fillStyle = on ? BLUE : GREY; g.strokeStyle = GREY;
      for (let i = 0; i < n; i++) {
        if (pass[i] !== on) continue;
        const x = px(X.values[i]), y = py(Y.values[i]);
        if (on && C) g.fillStyle = SHADES[Math.round(32 * good(C, C.values[i])) || 0];
        if (on || n > 3000) g.fillRect(x - r, y - r, 2 * r, 2 * r); else g.strokeRect(x - r + 0.5, y - r + 0.5, 2 * r - 1, 2 * r - 1);
      }
    }
    if (chosen >= 0) star(g, px(X.values[chosen]), py(Y.values[chosen]));
    if (drag && drag.on === scatter) { g.strokeStyle = INK; g.setLineDash([4, 3]); g.strokeRect(drag.x, drag.y, drag.x1 - drag.x, drag.y1 - drag.y); g.setLineDash([]); }
  }
  let axes = [];
  function axesFor(width) {
    const most = Math.max(2, Math.min(8, Math.floor(width / 95))), limits = limited();
    const wanted = [...objectives, ...limits, ...M.map((_, j) => j).filter((j) => M[j].greatest > M[j].least)];
    return [...new Set(wanted)].slice(0, Math.max(most, 2));
  }
  const Q = { t: 46, b: 26 };
  const axisX = (k, w) => 34 + (axes.length > 1 ? (k * (w - 68)) / (axes.length - 1) : (w - 68) / 2);
  const up = (m, v, h) => h - Q.b - good(m, v) * (h - Q.t - Q.b); // the better end is at the top
  function line(g, i, w, h) {
    for (let k = 0; k < axes.length; k++) {
      const m = M[axes[k]], x = axisX(k, w), y = up(m, m.values[i], h);
      if (k) g.lineTo(x, y); else g.moveTo(x, y);
    }
  }
  function drawParallel(all) {
    cancelAnimationFrame(frame);
    const { g, w, h } = prepare(parallel, 300);
    axes = axesFor(w);
    const key = [w, parallel.width, axes].join();
    if (key !== greyKey) { // the lines of all solutions are drawn once for each size
      greyKey = key; grey.width = parallel.width; grey.height = parallel.height;
      const q = grey.getContext("2d"), ratio = window.devicePixelRatio || 1, step = Math.ceil(n / 4000);
      q.setTransform(ratio, 0, 0, ratio, 0, 0); q.strokeStyle = GREY; q.globalAlpha = n > 500 ? 0.25 : 0.6; q.lineWidth = 1;
      for (let i = 0; i < n; i += step) { q.beginPath(); line(q, i, w, h); q.stroke(); }
    }
    g.save(); g.setTransform(1, 0, 0, 1, 0, 0); g.drawImage(grey, 0, 0); g.restore();
    const heading = (j, k) => {
      const m = M[j], x = axisX(k, w), last = axes.length - 1;
      g.textAlign = k === 0 ? "left" : k === last ? "right" : "center";
      const tx = k === 0 ? Math.max(2, x - 30) : k === last ? Math.min(w - 2, x + 30) : x;
      const room = Math.max(10, Math.floor((2 * (w / axes.length)) / 6.6)), t = title(m);
      g.fillText(t.length > room ? `${t.slice(0, room - 1)}…` : t, tx, k % 2 ? 27 : 12);
      const [top, bottom] = m.sense === "max" ? [m.greatest, m.least] : [m.least, m.greatest];
      g.fillText(digits(top), tx, Q.t - 5); g.fillText(digits(bottom), tx, h - Q.b + 15);
    };
    g.fillStyle = INK; axes.forEach(heading);
    const over = () => {
      g.globalAlpha = 1; g.strokeStyle = "#777"; g.lineWidth = 1;
      axes.forEach((j, k) => {
        const m = M[j], x = axisX(k, w);
        g.beginPath(); g.moveTo(x, Q.t); g.lineTo(x, h - Q.b); g.stroke();
        if (state.lo[j] > -Infinity || state.hi[j] < Infinity) {
          const ends = [up(m, Math.min(state.hi[j], m.greatest), h), up(m, Math.max(state.lo[j], m.least), h)];
          const top = Math.max(Q.t, Math.min(...ends)), low = Math.min(h - Q.b, Math.max(...ends));
          g.strokeStyle = ORANGE; g.strokeRect(x - 6, top, 12, Math.max(2, low - top)); g.strokeStyle = "#777";
        }
      });
      if (chosen >= 0) { g.strokeStyle = ORANGE; g.lineWidth = 3; g.beginPath(); line(g, chosen, w, h); g.stroke(); g.lineWidth = 1; }
    };
    const step = all ? 1 : Math.max(1, Math.ceil(left.length / QUICK)), order = left;
    let k = 0;
    const piece = () => {
      g.strokeStyle = BLUE; g.lineWidth = 1; g.globalAlpha = left.length > 2000 ? 0.12 : left.length > 200 ? 0.35 : 0.8;
      for (let c = 0; c < QUICK && k < order.length; c++, k += step) { g.beginPath(); line(g, order[k], w, h); g.stroke(); }
      over();
      if (k < order.length) frame = requestAnimationFrame(piece);
    };
    piece();
  }
  function draw(all) { drawScatter(); drawParallel(all); }
  let asked = false;
  function changed(byRule) { // byRule: a rule or a limit was set, so it picks again
    if (byRule) { state.id = null; start = null; }
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      compute(); showLimits();
      $("sure-value").textContent = state.sure ? `${state.sure}% of them${limited().length ? "" : "; set a limit first"}` : "off";
      $("weights").hidden = state.rule !== "weights"; $("costs").hidden = state.rule !== "costs";
      panel(); list(); draw(left.length <= QUICK);
      for (const box of document.querySelectorAll(".wide")) box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
      clearTimeout(timer);
      if (left.length > QUICK) timer = setTimeout(() => drawParallel(true), 250);
    });
  }

  // ---- the pointer
  const where = (canvas, e) => { const r = canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top, r.width, r.height]; };
  for (const canvas of [scatter, parallel]) {
    canvas.addEventListener("pointerdown", (e) => {
      const [x, y] = where(canvas, e);
      drag = { on: canvas, x, y, x1: x, y1: y }; canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!drag || drag.on !== canvas) return;
      [drag.x1, drag.y1] = where(canvas, e);
      if (canvas === scatter && !asked) requestAnimationFrame(drawScatter);
      if (canvas === parallel && Math.abs(drag.y1 - drag.y) > 4) brushAxis(drag, e);
    });
    canvas.addEventListener("pointercancel", () => { drag = null; draw(true); });
    canvas.addEventListener("pointerup", (e) => {
      if (!drag || drag.on !== canvas) return;
      const d = drag; [d.x1, d.y1] = where(canvas, e); drag = null;
      const moved = Math.abs(d.x1 - d.x) > 5 || Math.abs(d.y1 - d.y) > 5;
      if (canvas === scatter) { if (moved) brushPlane(d, e); else pickNear(e); }
      else if (!moved) { const j = axisAt(d.x, where(canvas, e)[2]); if (j >= 0) { state.lo[j] = -Infinity; state.hi[j] = Infinity; changed(true); } }
    });
  }
  function between(j, a, b) { // a whole axis is no limit
    const m = M[j], [t0, t1] = a < b ? [a, b] : [b, a];
    state.lo[j] = t0 <= 0 ? -Infinity : rounded(value(m, t0));
    state.hi[j] = t1 >= 1 ? Infinity : rounded(value(m, t1));
  }
  function axisAt(x, w) {
    let best = -1, near = 30;
    axes.forEach((j, k) => { const d = Math.abs(axisX(k, w) - x); if (d < near) { near = d; best = j; } });
    return best;
  }
  function brushAxis(d, e) {
    const [, , w, h] = where(parallel, e), j = axisAt(d.x, w);
    if (j < 0) return;
    const t = (y) => { const up = (h - Q.b - y) / (h - Q.t - Q.b); return M[j].sense === "max" ? up : 1 - up; };
    between(j, t(d.y), t(d.y1));
    changed(true);
  }
  function brushPlane(d, e) {
    const [, , w, h] = where(scatter, e), pad = 0.03;
    const tx = (x) => ((x - P.l) / (w - P.l - P.r) - pad) / (1 - 2 * pad), ty = (y) => ((h - P.b - y) / (h - P.t - P.b) - pad) / (1 - 2 * pad);
    between(state.x, tx(d.x), tx(d.x1)); between(state.y, ty(d.y), ty(d.y1));
    changed(true);
  }
  function pickNear(e) {
    const [x, y, w, h] = where(scatter, e), [px, py] = place({ w, h });
    let best = -1, near = 400;
    for (let i = 0; i < n; i++) {
      const gap = (px(M[state.x].values[i]) - x) ** 2 + (py(M[state.y].values[i]) - y) ** 2 + (pass[i] ? 0 : 60);
      if (gap < near) { near = gap; best = i; }
    }
    if (best >= 0) pick(best);
  }

  controls();
  changed(false);
  window.addEventListener("resize", () => changed(false));
  window.addEventListener("beforeprint", () => { compute(); draw(true); });
})();
