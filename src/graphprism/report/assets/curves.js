"use strict";
// Panels of curves: which ones are shown, on which axis, and which one is brought out.
(() => {
  const source = document.getElementById("curve-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const COLOURS = 8, DASHES = 4;

  const html = (name, attributes, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const short = (value) => Number(value.toPrecision(4)).toString();
  const best = (values, larger) => values.reduce((a, b) => (larger ? Math.max(a, b) : Math.min(a, b)));
  const seeds = (curve) => `${curve.runs} ${curve.runs === 1 ? "run" : "runs"}${curve.diverged ? `, ${curve.diverged} diverged` : ""}`;

  const buildPanel = (host, panel) => {
    const slots = new Map(); // curve -> number of its colour and dash, free again when it is hidden
    const take = (id) => {
      const used = new Set(slots.values());
      let slot = 0;
      while (used.has(slot)) slot += 1;
      slots.set(id, slot);
    };
    const css = (id) => `slot${slots.get(id) % COLOURS} dash${Math.floor(slots.get(id) / COLOURS) % DASHES}`;

    const log = html("input", { type: "checkbox" });
    log.checked = true;
    const search = html("input", { type: "search", placeholder: "find a configuration", "aria-label": `Find a configuration of ${panel.dataset}` });
    const none = html("button", { type: "button" }, "hide all");
    const tools = html("div", { class: "choose" }, html("label", {}, log, " logarithmic axis"), search, none);
    const list = html("ul", { class: "curve-list", "aria-label": `Curves of ${panel.dataset}` });
    const boxes = html("div", { class: "charts" });
    const charts = [["train", "training loss", true], ["val", `validation ${panel.metric}`, !panel.larger]].map(([column, name, canLog]) => {
      const place = html("div", {}), readout = html("output", { class: "readout" });
      const box = html("div", { class: "chart" }, place, readout);
      boxes.append(box);
      return { column, name, canLog, place, readout, box };
    });

    const pick = (id) => {
      for (const chart of charts) {
        chart.box.classList.toggle("picked", id !== null);
        for (const group of chart.box.querySelectorAll("[data-curve]")) group.classList.toggle("on", group.dataset.curve === String(id));
      }
      for (const item of list.children) item.classList.toggle("on", item.dataset.id === String(id));
    };
    const point = (chart, curve, at) => {
      pick(curve ? curve.id : null);
      const spread = curve && curve.deviation ? ` ± ${short(curve.deviation[at])}` : "";
      chart.readout.textContent = curve ? `epoch ${curve.epochs[at]}: ${short(curve.mean[at])}${spread} · ${curve.label}` : "";
    };
    const curvesOf = (chart) => Array.from(slots.keys()).sort((a, b) => a - b).flatMap((id) => {
      const { label, [chart.column]: numbers, ...rest } = panel.curves[id];
      if (!numbers) return [];
      const larger = chart.column === "val" && panel.larger;
      const title = `${label} (${seeds(rest)}): best ${short(best(numbers.mean, larger))}, last ${short(numbers.mean.at(-1))}`;
      return [{ id, label, title, css: css(id), epochs: data.grids[numbers.grid], mean: numbers.mean, deviation: numbers.deviation }];
    });
    const redraw = () => {
      for (const chart of charts) {
        const width = Math.max(260, Math.round(chart.box.clientWidth));
        lineChart.draw(chart.place, { name: chart.name, curves: curvesOf(chart), log: log.checked && chart.canLog, width,
          onPoint: (curve, at) => point(chart, curve, at) });
      }
    };
    const mark = (item) => {
      const id = Number(item.dataset.id);
      item.className = slots.has(id) ? `shown ${css(id)}` : "";
    };

    panel.curves.forEach((curve, id) => {
      const box = html("input", { type: "checkbox" });
      box.checked = curve.shown;
      if (curve.shown) take(id);
      const swatch = lineChart.svg("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, lineChart.svg("path", { class: "line", d: "M0 5H30" }));
      const value = curve.val ? short(best(curve.val.mean, panel.larger)) : "";
      const item = html("li", { "data-id": id }, html("label", {}, box, swatch, html("span", { class: "text" }, curve.label),
        html("span", { class: "small" }, [value, seeds(curve)].filter(Boolean).join(" · "))));
      mark(item);
      box.addEventListener("change", () => { box.checked ? take(id) : slots.delete(id); mark(item); redraw(); });
      for (const name of ["pointerenter", "focusin"]) item.addEventListener(name, () => slots.has(id) && pick(id));
      for (const name of ["pointerleave", "focusout"]) item.addEventListener(name, () => pick(null));
      list.append(item);
    });
    log.addEventListener("change", redraw);
    search.addEventListener("input", () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const item of list.children) item.hidden = !wanted.every((word) => item.textContent.toLowerCase().includes(word));
    });
    none.addEventListener("click", () => {
      slots.clear();
      for (const item of list.children) { item.querySelector("input").checked = false; mark(item); }
      redraw();
    });
    host.append(tools, boxes, list);
    let drawn = 0;
    new ResizeObserver(() => {
      if (Math.abs(boxes.clientWidth - drawn) < 2) return;
      drawn = boxes.clientWidth;
      redraw();
    }).observe(boxes);
  };
  for (const host of document.querySelectorAll("[data-panel]")) buildPanel(host, data.panels[Number(host.dataset.panel)]);
})();
