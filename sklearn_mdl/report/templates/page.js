"use strict";
// Interactive parts: sorting, filters, and values under the mouse. Without scripts, the
// page shows the same tables and static figures. Texts are only inserted as text nodes.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);
  const data = JSON.parse(one("#data").textContent);
  const root = document.documentElement;
  root.classList.add("scripted");
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const stroke = (e) => colour(`--c${e % 10}`);
  const cycle = (e) => Math.min(3, Math.floor(e / 10));
  const dash = (e) => [[], [6, 3], [2, 3], [9, 3, 2, 3]][cycle(e)];
  const make = (tag, text = "", kind = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const dot = (e) => make("i", "", `dot c${e % 10} d${cycle(e)}`);
  const shown = new Set(data.encoders.map((_, e) => e));
  const state = { dataset: 0, measure: "nats", log: true, bands: true, encoder: 0 };
  let charts = [];

  // Explanations, on hover and on focus

  const tip = make("div", "", "tip");
  tip.hidden = true;
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  const place = (x, y) => {
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 4))}px`;
    const below = y + 16 + box.height < innerHeight;
    tip.style.top = `${Math.max(4, below ? y + 16 : y - box.height - 10)}px`;
  };
  const hide = () => { tip.hidden = true; };
  for (const term of all("[title].term, .versus thead [title]")) {
    const text = term.title;
    term.removeAttribute("title");
    if (!term.hasAttribute("tabindex")) term.tabIndex = 0;
    const show = () => {
      const box = term.getBoundingClientRect();
      tip.replaceChildren(text);
      place(box.left, box.bottom - 10);
      term.setAttribute("aria-describedby", "tip");
    };
    term.addEventListener("mouseenter", show);
    term.addEventListener("focus", show);
    term.addEventListener("mouseleave", hide);
    term.addEventListener("blur", hide);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });

  // Sortable tables

  const valueOf = (cell) => {
    const value = cell.dataset.value ?? cell.textContent.trim();
    const number = parseFloat(value === "inf" ? "Infinity" : value);
    return Number.isNaN(number) ? value : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : String(a).localeCompare(String(b));
  for (const table of all("table.sortable")) {
    all("thead th:not(.plain)", table).forEach((head) => {
      const button = make("button");
      button.type = "button";
      const term = one(".term", head);
      if (term) term.removeAttribute("tabindex");
      button.append(...head.childNodes);
      head.append(button);
      if (term) {
        button.addEventListener("focus", () => term.dispatchEvent(new Event("focus")));
        button.addEventListener("blur", hide);
      }
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [valueOf(row.cells[head.cellIndex]), row]);
        rows.sort(([a], [b]) => (up ? compare(a, b) : compare(b, a)));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // Charts

  const number = (x) => Number(x.toPrecision(3)).toLocaleString("en");
  const reading = (measure, x) => (measure === "accuracy" ? `${(100 * x).toFixed(1)}%` : number(x));
  // Round places on a logarithmic axis; uPlot would begin with the first label.
  const round = (chart, axis, low, high) => {
    const places = [];
    for (let step = 10 ** Math.floor(Math.log10(Math.max(low, 1))); step <= high; step *= 10)
      for (let x = step; x < 10 * step && x <= high; x += step) if (x >= low) places.push(x);
    return places;
  };
  // Name 10, 20, 50, 100, or 10 and 100 if there is little room.
  const named = (chart, places) => {
    const decade = chart.valToPos(10, "x") - chart.valToPos(1, "x");
    return places.map((x) => ((decade > 180 ? /^[125]/ : /^1/).test(x) ? x : null));
  };
  const axes = (measure) => [
    { label: "labels seen", ...(state.log && { splits: round, filter: named }),
      stroke: colour("--soft"), grid: { stroke: colour("--rule"), width: 1 },
      ticks: { show: false }, size: 34, labelSize: 18, labelFont: "12px system-ui", font: "12px system-ui",
      values: (_, ticks) => ticks.map((x) => (x === null ? "" : x.toLocaleString("en"))) },
    { label: measure === "nats" ? "nats per label" : measure, stroke: colour("--soft"),
      grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false }, size: 52, labelSize: 18,
      labelFont: "12px system-ui", font: "12px system-ui",
      values: (_, ticks) => ticks.map((x) => (measure === "accuracy" ? `${Math.round(100 * x)}%` : number(x))) },
  ];
  const options = (box, measure, series, bands, range) => ({
    width: Math.max(240, box.clientWidth), height: box.closest("dialog") ? 230 : Math.max(280, Math.min(440, box.clientWidth * 0.5)),
    legend: { show: false }, series: [{}, ...series], bands, axes: axes(measure),
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { time: false, distr: state.log ? 3 : 1, range: (_, low, high) => [low, high] }, y: { range } },
    hooks: { setCursor: [(chart) => hover(chart)], },
  });
  const drawn = (box, settings, values, lines) => {
    box.replaceChildren();
    const chart = new uPlot(settings, values, box);
    chart.lines = lines;
    chart.x0 = values[0];
    chart.over.addEventListener("mouseleave", hide);
    return chart;
  };
  function hover(chart) {
    const at = chart.cursor.idx;
    if (at == null || !chart.lines || chart.cursor.left < 0) return;
    const lines = chart.lines.filter((line) => line.values.length)
      .map((line) => [line.values[at], line]).sort(([a], [b]) => b - a);
    if (chart.lines.ascending) lines.reverse();
    const head = make("b", `after ${Math.round(chart.x0[at]).toLocaleString("en")} labels`);
    tip.replaceChildren(head, ...lines.flatMap(([value, line]) => {
      const half = line.half && line.half[at] != null ? ` ± ${reading(chart.measure, line.half[at])}` : "";
      return ["\n", line.mark(), `${reading(chart.measure, value)}${half}  ${line.name}`];
    }));
    const box = chart.over.getBoundingClientRect();
    place(box.left + chart.cursor.left + 8, box.top + (chart.byKey ? 10 : chart.cursor.top));
    if (chart.byKey) one("#reading").textContent = tip.textContent.replaceAll("\n", "; ");
  }
  function curves(box, dataset, encoders, measure) {
    const own = data.datasets[dataset], series = [], bands = [], values = [own.x], lines = [];
    let low = Infinity, high = -Infinity;
    for (const e of encoders) {
      const cell = own.cells[e];
      if (!cell || !cell[measure][0].length) continue;
      const [middle, half] = cell[measure];
      const ends = [1, -1].map((sign) => middle.map((y, i) => y + sign * half[i]));
      if (measure === "accuracy") ends.forEach((end) => end.forEach((y, i) => { end[i] = Math.min(1, Math.max(0, y)); }));
      const edge = { width: 0, stroke: "transparent", points: { show: false }, show: state.bands };
      series.push({ stroke: stroke(e), dash: dash(e), width: 2, points: { show: false } });
      values.push(middle);
      if (state.bands) {
        series.push(edge, { ...edge });
        bands.push({ series: [values.length, values.length + 1], fill: `${stroke(e)}22` });
        values.push(...ends);
      }
      const [tops, bottoms] = state.bands ? ends : [middle, middle];
      low = Math.min(low, ...bottoms, ...middle);
      high = Math.max(high, ...tops, ...middle);
      lines.push({ name: data.encoders[e], values: middle, half, mark: () => dot(e) });
    }
    if (!lines.length) { box.replaceChildren(make("p", "Choose an encoder.", "note")); return null; }
    const pad = 0.04 * (high - low || 1);
    const range = measure === "accuracy" ? [0, Math.min(1, high + pad)] : [low >= 0 ? 0 : low - pad, high + pad];
    lines.ascending = measure === "nats";
    const chart = drawn(box, options(box, measure, series, bands, range), values, lines);
    chart.measure = measure;
    return chart;
  }
  function kinds(box, dataset, encoder, key) {
    const own = data.datasets[dataset], cell = own.cells[encoder];
    if (!cell) { box.replaceChildren(); return null; }
    const names = Object.keys(cell.kinds), series = [], values = [own.x], lines = [];
    if (names.length < 2) {
      box.replaceChildren(make("p", `All readouts are of one kind: ${names[0]}.`, "note"));
      if (key) key.replaceChildren();
      return null;
    }
    let sum = own.x.map(() => 0);
    const tops = names.map((name) => (sum = sum.map((y, i) => y + cell.kinds[name][i])));
    for (let k = names.length - 1; k >= 0; k--) { // the highest area first, so that the others cover it
      series.push({ stroke: stroke(k), fill: stroke(k), width: 1, points: { show: false } });
      values.push(tops[k]);
    }
    names.forEach((name, k) => lines.push({ name, values: cell.kinds[name], mark: () => dot(k) }));
    const settings = options(box, "weight", series, [], [0, 1]);
    settings.height = Math.min(settings.height, 300);
    const chart = drawn(box, settings, values, lines);
    chart.measure = "accuracy";
    if (key) key.replaceChildren(...names.map((name, k) => { const item = make("span"); item.append(dot(k), name); return item; }));
    return chart;
  }

  // Selections

  function draw() {
    const own = data.datasets[state.dataset];
    charts = [];
    if (!one("#chart") || !own.measures.length) return;
    if (!own.measures.includes(state.measure)) state.measure = own.measures[0];
    one(".choice").replaceChildren(...own.measures.map((measure) => {
      const button = make("button", measure === "nats" ? "nats" : measure);
      button.type = "button";
      button.setAttribute("aria-pressed", measure === state.measure);
      button.addEventListener("click", () => {
        state.measure = measure;
        draw();
        one(".choice [aria-pressed=true]").focus();
      });
      return button;
    }));
    charts.push(curves(one("#chart"), state.dataset, [...shown].sort((a, b) => a - b), state.measure));
    charts.push(kinds(one("#kinds"), state.dataset, state.encoder, one("#kinds-key")));
  }
  function filter() {
    for (const row of all("tr[data-encoder]")) row.classList.toggle("off", !shown.has(Number(row.dataset.encoder)));
    draw();
  }
  const legend = one("#legend");
  if (legend) {
    data.encoders.forEach((name, e) => {
      const label = make("label"), box = make("input");
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => { shown[box.checked ? "add" : "delete"](e); filter(); });
      label.append(box, " ", dot(e), name);
      legend.append(label);
    });
    const every = make("button", "all / none");
    every.type = "button";
    every.addEventListener("click", () => {
      const on = shown.size < data.encoders.length;
      all("input", legend).forEach((box, e) => { box.checked = on; shown[on ? "add" : "delete"](e); });
      filter();
    });
    legend.append(every);
    one("#log").addEventListener("change", (event) => { state.log = event.target.checked; draw(); });
    one("#bands").addEventListener("change", (event) => { state.bands = event.target.checked; draw(); });
    one("#encoder").addEventListener("change", (event) => { state.encoder = Number(event.target.value); draw(); });
    one("#chart").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e6, End: 1e6 }[event.key];
      const chart = charts[0];
      if (!step || !chart) return;
      event.preventDefault();
      const last = chart.x0.length - 1, from = chart.byKey ? chart.cursor.idx ?? -1 : -1;
      const at = Math.max(0, Math.min(last, from + step));
      chart.byKey = true;
      chart.setCursor({ left: chart.valToPos(chart.x0[at], "x"), top: 10 });
      chart.byKey = true;
    });
    one("#chart").addEventListener("blur", hide);
    one("#chart").addEventListener("mousemove", () => { if (charts[0]) charts[0].byKey = false; });
  }
  const dataset = one("#dataset");
  const choose = () => {
    const value = dataset.value;
    for (const part of all(".of")) {
      const own = part.dataset.dataset === value || (all(".of").length === 1);
      part.hidden = !own;
      if (part.tagName === "DETAILS") part.open = own;
    }
    state.dataset = Number(value || 0);
    const best = one(".of:not([hidden]) tbody tr");
    if (value !== "" && best && one("#encoder")) {
      state.encoder = Number(best.dataset.encoder);
      one("#encoder").value = state.encoder;
    }
    for (const other of all(".dataset-too")) other.value = String(state.dataset);
    draw();
  };
  one("#dataset").addEventListener("change", choose);
  if (data.datasets.length === 1) one("#dataset").closest(".bar").remove();
  if (data.datasets.length > 1) { // the figures show one dataset at a time
    for (const bar of [one("#switches"), one("#kinds") && one("#kinds").previousElementSibling]) {
      if (!bar) continue;
      const label = make("label", "Dataset "), select = make("select", "", "dataset-too");
      data.datasets.forEach(({ name }, d) => select.append(new Option(name, String(d))));
      select.addEventListener("change", () => {
        state.dataset = Number(select.value);
        for (const other of all(".dataset-too")) other.value = select.value;
        draw();
      });
      label.append(select);
      bar.prepend(label);
    }
  }
  for (const cell of all("[data-cell]")) {
    const [encoder, dataset] = cell.dataset.cell.split(" ").map(Number);
    if (!data.datasets[dataset].cells[encoder]) continue;
    const button = make("button", cell.textContent);
    const title = `${data.encoders[encoder]} on ${data.datasets[dataset].name}`;
    button.type = "button";
    button.setAttribute("aria-label", `${cell.textContent}: ${title}`);
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      one("#cell-title").textContent = title;
      one("#cell").showModal();
      curves(one("#cell-curve"), dataset, [encoder], state.measure);
      kinds(one("#cell-kinds"), dataset, encoder, null);
    });
  }
  let timer = 0, width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(draw, 100);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  choose();
})();
