"use strict";
// One chart: lines with bands over epochs, on a linear or a logarithmic axis.
const lineChart = (() => {
  const HEIGHT = 300, LEFT = 52, RIGHT = 16, TOP = 26, BOTTOM = 34;

  const svg = (name, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  const ticks = (low, high, count) => {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((each) => each * power >= 0.75 * rough);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, each) => (first + each) * step);
  };
  const logTicks = (low, high) => {
    const found = [];
    const digits = high / low > 1000 ? [1] : high / low > 8 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
      for (const digit of digits) {
        const value = digit * 10 ** power;
        if (value >= low && value <= high) found.push(value);
      }
    }
    return found.length > 2 ? found : ticks(low, high, 4);
  };
  // At most seven letters: there is no room for more.
  const label = (value) => {
    const size = Math.abs(value);
    return size >= 1e6 || (size > 0 && size < 1e-4) ? value.toExponential().replace("e+", "e") : Number(value.toPrecision(4)).toString();
  };

  const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  // Losses of the first epochs may be thousands of times those of all others, which would then be one flat line: what is
  // above all that follows the first twentieth, ten times over, is cut off.
  const settled = (curves) => range(curves.flatMap((curve) => curve.mean.slice(Math.ceil(curve.mean.length / 20))))[1];
  const domain = (curves, log) => {
    const [low, whole] = range(curves.flatMap((curve) => curve.mean).filter((value) => !log || value > 0));
    const high = isCut(curves) ? 2 * settled(curves) : whole;
    if (low > high) return [log ? 0.1 : 0, 1];
    if (log) return low === high ? [low / 2, high * 2] : [low / 1.08, high * 1.08];
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    return [low >= 0 && low < 0.3 * high ? 0 : low - room, high + room];
  };

  const isCut = (curves) => {
    const later = settled(curves);
    return later > 0 && curves.some((curve) => curve.mean.some((value) => value > 10 * later));
  };

  // A value that the axis has no place for ends the line there; a new one starts after it.
  const path = (points) => {
    let drawing = false;
    return points.map(([x, y]) => {
      if (!Number.isFinite(y)) { drawing = false; return ""; }
      const step = `${drawing ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      drawing = true;
      return step;
    }).join("");
  };

  let drawn = 0; // charts so far, for names of their frames
  const draw = (host, { name, curves, log, width, onPoint }) => {
    const [low, high] = domain(curves, log);
    const [first, last] = range(curves.flatMap((curve) => [curve.epochs[0], curve.epochs.at(-1)]));
    const right = width - RIGHT, bottom = HEIGHT - BOTTOM;
    const x = (epoch) => LEFT + (right - LEFT) * (last > first ? (epoch - first) / (last - first) : 0.5);
    const share = (value) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    const y = (value) => log && value <= 0 ? NaN : bottom - (bottom - TOP) * share(value);
    const inside = (value) => Math.max(TOP, Math.min(bottom, log && value <= 0 ? bottom : y(value)));

    const axes = svg("g", { "aria-hidden": "true" });
    for (const value of log ? logTicks(low, high) : ticks(low, high, 5)) {
      axes.append(svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
        svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, label(value)));
    }
    for (const epoch of curves.length ? ticks(first, Math.max(last, first + 1), width < 400 ? 4 : 7) : []) {
      if (Number.isInteger(epoch)) axes.append(svg("text", { x: x(epoch), y: bottom + 16, "text-anchor": "middle" }, String(epoch)));
    }
    axes.append(svg("text", { x: right, y: HEIGHT - 4, "text-anchor": "end" }, "epoch"),
      svg("text", { x: LEFT, y: 14, class: "name" }, name + (log ? ", logarithmic" : "") + (isCut(curves) ? "; first epochs are cut off" : "")));

    const groups = curves.map((curve) => {
      const group = svg("g", { class: curve.css, "data-curve": curve.id });
      if (curve.deviation) {
        const edge = (sign) => curve.epochs.map((epoch, at) => [x(epoch), inside(curve.mean[at] + sign * curve.deviation[at])]);
        group.append(svg("path", { class: "band", d: `${path([...edge(1), ...edge(-1).reverse()])}Z` }));
      }
      const line = path(curve.epochs.map((epoch, at) => [x(epoch), y(curve.mean[at])]));
      group.append(svg("path", { class: "line", d: line }),
        svg("path", { class: "reach", d: line }), svg("title", {}, curve.title));
      return group;
    });
    drawn += 1;
    const frame = svg("clipPath", { id: `frame-${drawn}` }, svg("rect", { x: 0, y: TOP - 2, width, height: HEIGHT }));
    const lines = svg("g", { "clip-path": `url(#frame-${drawn})` }, ...groups);
    const dot = svg("circle", { r: 4.5, class: "dot", visibility: "hidden" });
    const image = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${name} by epoch, ${curves.length} curves` },
      frame, axes, lines, dot);

    image.addEventListener("pointermove", (event) => {
      const box = image.getBoundingClientRect();
      const [px, py] = [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * HEIGHT / box.height];
      let best = null;
      for (const curve of curves) {
        let at = 0;
        while (at + 1 < curve.epochs.length && Math.abs(x(curve.epochs[at + 1]) - px) <= Math.abs(x(curve.epochs[at]) - px)) at += 1;
        const distance = Math.abs(y(curve.mean[at]) - py);
        if (Number.isFinite(distance) && (!best || distance < best.distance)) best = { curve, at, distance };
      }
      if (!best) return;
      dot.setAttribute("class", `dot ${best.curve.css}`);
      dot.setAttribute("cx", x(best.curve.epochs[best.at]));
      dot.setAttribute("cy", y(best.curve.mean[best.at]));
      dot.setAttribute("visibility", "visible");
      onPoint(best.curve, best.at);
    });
    image.addEventListener("pointerleave", () => { dot.setAttribute("visibility", "hidden"); onPoint(null); });
    host.replaceChildren(image);
  };
  return { draw, svg };
})();
