// The page itself: settings, time, both pictures, words, and the link that brings all of it back.
(() => {
  const $ = (id) => document.getElementById(id);
  const SPLITS = {
    none: "One relation: MRS-GCN is GCN with other weights.",
    degree: "Up leads to a node with more neighbours, down to one with fewer.",
    "degree,ppr": "By degree; where degrees are equal, PageRank decides.",
    ppr: "Up leads to a node of larger PageRank.",
    core: "Up leads to a deeper core: nodes that stay when the ends of the graph are peeled off.",
    triangles: "Up leads to a node in more triangles.",
    eigenvector: "Up leads to a node of larger eigenvector centrality.",
    bfs: "Up leads away from the nodes with most neighbours.",
    random: "Up leads to a larger random number: a fixed permutation of the nodes.",
    features: "Up leads to a node whose features have a larger sum.",
  };
  const NAMES = { "degree,ppr": "degree, then PageRank", ppr: "PageRank", core: "core number", none: "none", eigenvector: "eigenvector centrality", bfs: "distance from the hubs" };
  const SIZED = ["path", "star", "grid", "random"];
  const GRAPH_NAMES = { karate: "karate club", own: "your own" };
  const NUMBERS = { size: [5, 200], depth: [1, 128], width: [2, 32], seed: [1, 100] };
  const DEFAULTS = { graph: "grid", split: "degree,ppr", size: 49, depth: 64, width: 16, seed: 1 };
  const state = { ...DEFAULTS, own: null };
  const calm = matchMedia("(prefers-reduced-motion: reduce)"), dark = matchMedia("(prefers-color-scheme: dark)");
  const views = { GCN: new View($("gcn-view")), [MRS]: new View($("mrs-view")) };
  let graph, places, networks, theme, at = 0, playing = false, picked = null, line = null, dirty = true, last = 0, rows = 0, drawing = 0, unsaid = false;

  // Colours are those of the style sheet.
  const readTheme = () => {
    const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(`--${name}`).trim();
    const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : dark.matches;
    theme = Object.fromEntries(["gcn", "mrs", "low", "high", "tie", "edge", "grid", "soft", "ink", "page", "line"].map((name) => [name, get(name)]));
    Object.assign(theme, { isDark, rim: isDark ? "#0d1020" : "#ffffff", onNode: isDark ? "#0b0d18" : "#ffffff" });
  };

  const build = ({ keepPlaces = false } = {}) => {
    graph = state.graph === "own" ? { ...state.own, edges: state.own.edges.map((edge) => [...edge]) } : GRAPHS[state.graph](state.size, state.seed);
    if (!keepPlaces || !places || places.length !== graph.numNodes) places = layoutOf(graph, views.GCN.canvas.clientWidth / views.GCN.canvas.clientHeight);
    rebuild();
  };

  const rebuild = () => {
    const middle = [0, 1].map((axis) => places.reduce((sum, place) => sum + place[axis], 0) / places.length);
    networks = makeNetworks(graph, state, places.map(([x, y]) => [x - middle[0], y - middle[1]]));
    at = Math.min(at, state.depth);
    rows = 0;
    $("numbers").replaceChildren();
    $("sentence").textContent = certificate(graph, networks.relations, state.split, state.width).sentence;
    fitViews();
    write();
  };

  const fitViews = () => {
    for (const [name, view] of Object.entries(views)) view.prepare(graph, places, name === MRS && state.split !== "none" ? networks.relations : null, theme);
    for (const id of ["distance-chart", "rank-chart"]) {
      const canvas = $(id), ratio = Math.min(2, devicePixelRatio || 1);
      canvas.width = Math.round(canvas.clientWidth * ratio);
      canvas.height = Math.round(canvas.clientHeight * ratio);
    }
    drawing += 1;
    dirty = true;
  };

  const shown = (value, digits) => (Number.isNaN(value) ? "all 0" : value >= 0.01 || value === 0 ? value.toFixed(digits) : value.toExponential(0).replace("e-", "e−"));
  const computed = () => Math.min(networks.GCN.layers, networks[MRS].layers);

  // What stands beside the pictures and changes with settings alone.
  const write = () => {
    for (const input of document.querySelectorAll("#graph-choices input")) input.checked = input.value === state.graph;
    for (const name of Object.keys(NUMBERS)) { $(name).value = state[name]; $(`${name}-text`).textContent = state[name]; }
    $("split").value = state.split;
    $("split-about").textContent = SPLITS[state.split];
    $("size-row").hidden = !SIZED.includes(state.graph);
    $("own").hidden = state.graph !== "own";
    $("stage").classList.toggle("drawing", state.graph === "own");
    $("layer").max = state.depth;
    const counts = [0, 0, 0];
    for (const relation of networks.relations) counts[state.split === "none" ? TIE : relation] += 1;
    const steep = counts[UP] + counts[DOWN];
    $("mrs-about").textContent = state.split === "none" ? "one weight for all edges" : "a weight for up, down, tie";
    $("legend").innerHTML = "";
    const sign = (path, kind) => `<svg viewBox="0 0 42 14" aria-hidden="true"><path class="${kind}" d="${path}"/></svg>`;
    const say = (drawing, text) => { const item = document.createElement("li"); item.innerHTML = drawing; item.append(text); $("legend").append(item); };
    if (state.split === "none") say(sign("M1 7 H41", "tie"), `${counts[TIE]} edges, one relation`);
    else {
      say(sign("M1 7 H41 M17 2 L23 7 L17 12", "up"), `${steep} edges: up along the arrow, down back`);
      say(sign("M1 7 H41", "tie"), `${counts[TIE]} edges: tie, both ways`);
    }
    dirty = true;
    scheduleLink();
  };

  const headline = (layer) => {
    const [plain, mrs] = [networks.GCN.rank[layer], networks[MRS].rank[layer]];
    const part = (css, value) => (Number.isNaN(value) ? `<b class="${css}">none</b>` : `<b class="${css}">${value.toFixed(1)}</b>`);
    const when = layer === 0 ? "Before the first layer" : layer === 1 ? "After 1 layer" : `After ${layer} layers`;
    return `${when}, GCN carries ${part("gcn", plain)} signals and MRS-GCN ${part("mrs", mrs)}.`;
  };

  // Words change with the layer and with what is computed, not with each frame.
  let told = "";
  const tell = (layer) => {
    const now = [layer, computed(), link()].join();
    if (now === told) return;
    told = now;
    $("headline").innerHTML = headline(layer);
    $("layer").value = layer;
    $("layer").setAttribute("aria-valuetext", `layer ${layer} of ${state.depth}`);
    $("layer-text").innerHTML = `layer ${layer}<span class="of"> of ${state.depth}</span>`;
    for (const [id, name] of [["gcn", "GCN"], ["mrs", MRS]]) {
      $(`${id}-distance`).textContent = shown(networks[name].distance[layer], 2);
      $(`${id}-rank`).textContent = shown(networks[name].rank[layer], 1);
      $(`${id}-view`).setAttribute("aria-label", `${name} after ${layer} layers on a graph of ${graph.numNodes} nodes: rank-one distance `
        + `${shown(networks[name].distance[layer], 3)}, effective rank ${shown(networks[name].rank[layer], 2)}`);
    }
    const done = computed();
    for (const [id, what, key] of [["distance-chart", "Rank-one distance", "distance"], ["rank-chart", "Effective rank", "rank"]]) {
      $(id).setAttribute("aria-label", `${what} by layer, up to layer ${done}: GCN ends at ${shown(networks.GCN[key][done], 3)}, MRS-GCN at ${shown(networks[MRS][key][done], 3)}`);
    }
  };

  const listNumbers = () => {
    const wanted = [];
    for (let layer = 1; layer < state.depth; layer *= 2) wanted.push(layer);
    wanted.push(state.depth);
    for (; rows < wanted.length && wanted[rows] <= computed(); rows += 1) {
      const row = document.createElement("tr"), head = document.createElement("th");
      head.scope = "row";
      head.textContent = wanted[rows];
      row.append(head);
      for (const [name, key] of [["GCN", "distance"], [MRS, "distance"], ["GCN", "rank"], [MRS, "rank"]]) {
        const cell = document.createElement("td"), value = networks[name][key][wanted[rows]];
        cell.textContent = Number.isNaN(value) ? "all 0" : value.toPrecision(4);
        row.append(cell);
      }
      $("numbers").append(row);
    }
  };

  // Of the time of a layer, messages are under way first; then they have arrived, nodes turn into their new colours, and
  // the layer that is named is the next one. So what is named is what is seen: before the first layer both are alike.
  const ARRIVED = 0.6;
  const moment = (here = Math.min(at, computed())) => {
    const layer = Math.floor(here), share = here - layer;
    return { layer, named: layer + (share > ARRIVED ? 1 : 0), sent: Math.min(1, share / ARRIVED), turned: Math.max(0, (share - ARRIVED) / (1 - ARRIVED)) };
  };

  // Layers are slow at first, where most happens, and faster later: 64 layers take 20 s.
  const seconds = (layer) => Math.max(0.2, 1.1 / (1 + layer / 6));

  const frame = (now) => {
    const elapsed = Math.min(0.1, (now - last) / 1000), start = performance.now();
    last = now;
    while (computed() < state.depth && performance.now() - start < 5) {
      for (const name of ["GCN", MRS]) if (networks[name].layers < state.depth) networks[name].step();
      dirty = true;
    }
    listNumbers();
    if (playing) {
      at = Math.min(at + elapsed / seconds(Math.floor(at)), state.depth, computed());
      dirty = true;
      if (at >= state.depth) setPlaying(false);
    }
    if (dirty) draw();
    requestAnimationFrame(frame);
  };

  // Axes and lines are drawn once a layer, their heads each frame.
  const charts = {};
  const chart = (id, key, log) => {
    const canvas = $(id), context = canvas.getContext("2d"), ratio = Math.min(2, devicePixelRatio || 1), cache = (charts[id] ||= { canvas: document.createElement("canvas") });
    const now = [drawing, Math.floor(at), computed(), state.depth].join();
    if (cache.now !== now) {
      cache.now = now;
      Object.assign(cache.canvas, { width: canvas.width, height: canvas.height });
      const still = cache.canvas.getContext("2d");
      still.setTransform(ratio, 0, 0, ratio, 0, 0);
      cache.head = drawCurves(still, { x: 0, y: 0, width: canvas.width / ratio, height: canvas.height / ratio }, curves(key, log));
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(cache.canvas, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    cache.head(context, Math.min(at, computed()));
  };
  const curves = (key, log) => ({
    series: [{ values: networks.GCN[key], colour: theme.gcn, dash: [5, 4] }, { values: networks[MRS][key], colour: theme.mrs }],
    at: Math.min(at, computed()), depth: state.depth, log, theme,
  });

  const draw = () => {
    const { layer, named, sent, turned } = moment();
    for (const [name, view] of Object.entries(views)) {
      const { hues } = networks[name];
      view.draw(hues[layer], hues[Math.min(layer + 1, hues.length - 1)], { sent, turned, messages: !calm.matches, picked, line });
    }
    chart("distance-chart", "distance", true);
    chart("rank-chart", "rank", false);
    tell(named);
    dirty = false;
    // A screen reader hears of a layer where playing stops, not of each that passes.
    if (unsaid) $("said").textContent = $("headline").textContent;
    unsaid = false;
  };

  const setPlaying = (wanted) => {
    if (wanted && at >= state.depth) at = 0;
    playing = wanted;
    $("play").setAttribute("aria-label", playing ? "Pause" : "Play");
    $("play-sign").setAttribute("d", playing ? "M3.5 2.5 h3.4 v11 h-3.4 Z M9.1 2.5 h3.4 v11 h-3.4 Z" : "M4 2.5 L13.5 8 L4 13.5 Z");
    if (!playing) { dirty = unsaid = true; scheduleLink(); }
  };
  const goTo = (layer) => { setPlaying(false); at = Math.max(0, Math.min(state.depth, layer)); dirty = true; };

  // The link: settings, and the edges and places of an own graph, in base 36.
  const code = (value) => value.toString(36), number = (text) => parseInt(text, 36);
  const link = () => {
    const fields = new URLSearchParams({ graph: state.graph, split: state.split, depth: state.depth, width: state.width, seed: state.seed });
    if (SIZED.includes(state.graph)) fields.set("size", state.size);
    if (!playing && at > 0) fields.set("layer", moment(at).named);
    if (state.graph === "own") {
      fields.set("nodes", state.own.numNodes);
      fields.set("edges", state.own.edges.map((edge) => edge.map(code).join("-")).join("."));
      if (state.own.points) {
        const [lx, hx, ly, hy] = [0, 1].flatMap((axis) => { const all = places.map((p) => p[axis]); return [Math.min(...all), Math.max(...all)]; });
        const span = Math.max(hx - lx, hy - ly) || 1;
        fields.set("points", places.map(([x, y]) => `${code(Math.round(((x - lx) / span) * 999))}-${code(Math.round(((y - ly) / span) * 999))}`).join("."));
      }
    }
    return `#${fields}`;
  };
  let timer = 0;
  const scheduleLink = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (location.hash !== link()) history.replaceState(null, "", link()); }, 300);
  };
  // Reads what a link says; what is wrong in it is left at its default.
  const readLink = () => {
    const fields = new URLSearchParams(location.hash.slice(1)), pairs = (name) => (fields.get(name) || "").split(".").filter(Boolean).map((pair) => pair.split("-").map(number));
    Object.assign(state, DEFAULTS);
    if (fields.get("graph") in GRAPHS) state.graph = fields.get("graph");
    if (fields.get("split") in SPLITS) state.split = fields.get("split");
    for (const [name, [low, high]] of Object.entries(NUMBERS)) {
      const value = Number(fields.get(name));
      if (fields.has(name) && Number.isInteger(value)) state[name] = Math.max(low, Math.min(high, value));
    }
    const count = Number(fields.get("nodes")), edges = pairs("edges"), points = pairs("points");
    const fits = (each) => each.length === 2 && each.every((end) => Number.isInteger(end) && end >= 0);
    if (fields.get("graph") === "own" && count >= 1 && count <= MOST_NODES && edges.every((edge) => fits(edge) && Math.max(...edge) < count)) {
      state.graph = "own";
      state.own = { numNodes: count, edges: simpleEdges(edges), points: points.length === count && points.every(fits) ? points : undefined };
      fillEdges();
    }
    const layer = Number(fields.get("layer"));
    at = Number.isInteger(layer) ? Math.max(0, Math.min(state.depth, layer)) : 0;
    return fields;
  };

  const fillEdges = () => {
    const { numNodes, edges } = state.own, linked = new Set(edges.flat());
    const alone = Array.from({ length: numNodes }, (_, node) => node).filter((node) => !linked.has(node));
    $("edges").value = [...edges.map((edge) => edge.join(" ")), ...alone].join("\n");
    $("edges-error").textContent = "";
  };

  // Settings.
  for (const name of [...Object.keys(GRAPHS), "own"]) {
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "graph", value: name });
    input.addEventListener("change", () => {
      if (name === "own" && !state.own) state.own = { numNodes: graph.numNodes, edges: graph.edges.map((edge) => [...edge]), points: places };
      state.graph = name;
      if (name === "own") fillEdges();
      at = 0;
      build();
      setPlaying(!calm.matches && name !== "own");
    });
    label.append(input, GRAPH_NAMES[name] || name);
    $("graph-choices").append(label);
  }
  for (const name of Object.keys(SPLITS)) $("split").add(new Option(NAMES[name] || name, name));
  $("split").addEventListener("change", () => { state.split = $("split").value; rebuild(); });
  for (const name of Object.keys(NUMBERS)) {
    $(name).addEventListener("input", () => {
      state[name] = Number($(name).value);
      if (name === "depth") { at = Math.min(at, state.depth); rows = 0; $("numbers").replaceChildren(); write(); }
      else build({ keepPlaces: !(name === "size" || (name === "seed" && state.graph === "random")) });
    });
  }
  $("edges").addEventListener("input", () => {
    try {
      const parsed = parseEdges($("edges").value);
      state.own = parsed;
      $("edges-error").textContent = "";
      build();
    } catch (error) { $("edges-error").textContent = error.message; }
  });
  $("clear").addEventListener("click", () => {
    state.own = { numNodes: 1, edges: [], points: [[0, 0]] };
    fillEdges();
    build();
  });

  // Time.
  $("play").addEventListener("click", () => setPlaying(!playing));
  $("back").addEventListener("click", () => goTo(Math.ceil(at) - 1));
  $("next").addEventListener("click", () => goTo(Math.floor(at) + 1));
  $("layer").addEventListener("input", () => goTo(Number($("layer").value)));
  document.addEventListener("keydown", (event) => {
    const busy = event.target.closest("input, select, textarea, button, summary, a");
    if (busy || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { " ": () => setPlaying(!playing), ArrowLeft: () => goTo(Math.ceil(at) - 1), ArrowRight: () => goTo(Math.floor(at) + 1), Home: () => goTo(0), End: () => goTo(state.depth) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // Pictures: point at a node to read it, drag to move it; an own graph is drawn.
  const changeOwn = (numNodes, edges) => {
    state.own = { numNodes, edges: simpleEdges(edges), points: places };
    fillEdges();
    build({ keepPlaces: true });
  };
  for (const [name, view] of Object.entries(views)) {
    const { canvas } = view;
    let held = null, moved = false;
    const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const isDrawing = (event) => state.graph === "own" && !event.shiftKey;
    canvas.addEventListener("pointerdown", (event) => {
      held = view.nodeAt(...spot(event));
      moved = false;
      if (held !== null) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = spot(event), over = view.nodeAt(x, y);
      if (held === null) {
        picked = over;
        $("tip").hidden = over === null;
        if (over !== null) {
          const layer = moment().named, label = graph.labels ? graph.labels[over] : graph.atoms ? `${graph.atoms[over]} ${over}` : over;
          const count = graph.edges.filter((edge) => edge.includes(over)).length;
          $("tip").textContent = `node ${label}: ${count} ${count === 1 ? "neighbour" : "neighbours"}; ${name}, layer ${layer}`;
          Object.assign($("tip").style, { left: `${Math.min(event.clientX + 14, innerWidth - 230)}px`, top: `${event.clientY + 14}px` });
        }
      } else if (isDrawing(event)) { line = [view.spots[held], [x, y]]; moved = true; }
      else {
        places[held] = view.toPlane(x, y);
        moved = true;
        for (const each of Object.values(views)) { each.spots = places.map(each.toCanvas); each.drawEdges(each === views[MRS] && state.split !== "none" ? networks.relations : null); }
      }
      dirty = true;
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = spot(event), over = view.nodeAt(x, y);
      line = null;
      dirty = true;
      if (isDrawing(event)) {
        if (held === null && over === null && graph.numNodes < MOST_NODES) {
          places = [...places, view.toPlane(x, y)];
          changeOwn(graph.numNodes + 1, graph.edges);
        } else if (held !== null && moved && over !== null && over !== held) {
          const same = ([a, b]) => (a === held && b === over) || (a === over && b === held);
          const without = graph.edges.filter((edge) => !same(edge));
          changeOwn(graph.numNodes, without.length < graph.edges.length ? without : [...graph.edges, [held, over]]);
        }
      }
      held = null;
    });
    canvas.addEventListener("dblclick", (event) => {
      const over = view.nodeAt(...spot(event));
      if (state.graph !== "own" || over === null || graph.numNodes < 2) return;
      const lower = (node) => (node > over ? node - 1 : node);
      places = places.filter((_, node) => node !== over);
      changeOwn(graph.numNodes - 1, graph.edges.filter((edge) => !edge.includes(over)).map((edge) => edge.map(lower)));
    });
    canvas.addEventListener("pointerleave", () => { picked = null; $("tip").hidden = true; dirty = true; });
  }

  // Sharing.
  const flash = (button, text) => { const before = [...button.childNodes]; button.textContent = text; $("said").textContent = text; setTimeout(() => button.replaceChildren(...before), 1600); };
  $("share").addEventListener("click", async () => {
    history.replaceState(null, "", link());
    try { await navigator.clipboard.writeText(location.href); flash($("share"), "Link copied"); } catch { flash($("share"), "Link is in the address bar"); }
  });

  // A card of 1600 by 900: both graphs, both curves, and the sentence in words.
  const card = () => {
    const canvas = document.createElement("canvas"), context = canvas.getContext("2d"), layer = moment().named;
    Object.assign(canvas, { width: 1600, height: 900 });
    const paper = context.createLinearGradient(0, 0, 1600, 900);
    paper.addColorStop(0, theme.isDark ? "#171330" : "#ffffff");
    paper.addColorStop(1, theme.isDark ? "#090b15" : "#eceefa");
    context.fillStyle = paper;
    context.fillRect(0, 0, 1600, 900);
    // Words of any length fit between the margins.
    const title = (text, y, weight, size, colour) => {
      context.font = `${weight} ${size}px system-ui, sans-serif`;
      context.font = `${weight} ${size * Math.min(1, 1460 / context.measureText(text).width)}px system-ui, sans-serif`;
      context.fillStyle = colour;
      context.fillText(text, 70, y);
    };
    title($("headline").textContent, 96, 650, 42, theme.ink);
    title(`${GRAPH_NAMES[state.graph] || state.graph}, ${graph.numNodes} nodes; split by ${NAMES[state.split] || state.split}; ${state.width} channels, random weights. Grey is one signal for all nodes.`, 142, 400, 26, theme.soft);
    [["GCN", theme.gcn], [MRS, theme.mrs]].forEach(([name, colour], column) => {
      const view = new View(Object.assign(document.createElement("canvas"), { width: 720, height: 440 })), { hues } = networks[name];
      view.prepare(graph, places, name === MRS && state.split !== "none" ? networks.relations : null, theme, 2);
      view.draw(hues[layer], hues[layer]);
      context.drawImage(view.canvas, 60 + 760 * column, 190, 720, 440);
      context.fillStyle = colour;
      context.font = "650 32px system-ui, sans-serif";
      context.fillText(name, 70 + 760 * column, 215);
    });
    [["distance", true, "rank-one distance"], ["rank", false, "effective rank"]].forEach(([key, log, title], column) => {
      context.fillStyle = theme.soft;
      context.textAlign = "left";
      context.textBaseline = "alphabetic";
      context.font = "22px system-ui, sans-serif";
      context.fillText(title, 70 + 760 * column, 660);
      drawCurves(context, { x: 50 + 760 * column, y: 660, width: 720, height: 190 }, { ...curves(key, log), size: 19 })(context, layer);
    });
    context.textAlign = "right";
    context.fillStyle = theme.soft;
    context.font = "22px system-ui, sans-serif";
    context.fillText("graphprism play", 1530, 880);
    return canvas;
  };
  $("picture").addEventListener("click", () => card().toBlob((blob) => {
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(blob);
    anchor.download = `graphprism-${state.graph}-${moment().named}.png`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  }));

  const retheme = () => { readTheme(); fitViews(); };
  $("theme").addEventListener("click", () => { document.documentElement.dataset.theme = theme.isDark ? "light" : "dark"; retheme(); });
  dark.addEventListener("change", retheme);
  // Sizing a canvas empties it, and the next frame would come too late.
  new ResizeObserver(() => { if (networks) { fitViews(); draw(); } }).observe($("stage"));
  addEventListener("hashchange", () => { if (location.hash === link()) return; readLink(); build(); setPlaying(false); });

  readTheme();
  const given = readLink();
  build();
  setPlaying(!calm.matches && !given.has("layer"));
  requestAnimationFrame((now) => { last = now; frame(now); });
  // For tests, and for those who look.
  window.graphprismPlay = { state, spots: () => views.GCN.spots, goTo, setPlaying, card, networks: () => networks, graph: () => graph, computed, certificate: () => $("sentence").textContent };
})();
