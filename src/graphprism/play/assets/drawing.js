// Pictures of a graph: edges by relation, messages on their way, nodes in the colours of what they carry.
const oklab = (lightness, a, b) => {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3, m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const channel = (linear) => {
    const value = linear <= 0.0031308 ? 12.92 * linear : 1.055 * linear ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, value)));
  };
  return `rgb(${channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s)} ${channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s)} ${channel(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s)})`;
};

// Where a node's direction lies, as a colour: hue is the angle, and the distance from the common signal is the chroma.
const colourAt = (from, to, share, isDark) => {
  const vivid = ([x, y]) => {
    const apart = Math.hypot(x, y);
    if (!(apart > 1e-9)) return [0, 0];
    const chroma = 0.2 * Math.min(1, (apart / 0.62) ** 0.7);
    return [(x / apart) * chroma, (y / apart) * chroma];
  };
  const [a, b] = vivid(from), [c, d] = vivid(to);
  const u = a + (c - a) * share, v = b + (d - b) * share, chroma = Math.hypot(u, v) / 0.2;
  return oklab(isDark ? 0.68 + 0.08 * chroma : 0.72 - 0.06 * chroma, u, v);
};

class View {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.edges = document.createElement("canvas");
  }

  // Fits the graph into the canvas and draws its edges once: they do not move while layers pass.
  prepare(graph, places, relations, theme, ratio = Math.min(2, devicePixelRatio || 1)) {
    const { canvas, edges } = this, width = canvas.clientWidth || canvas.width, height = canvas.clientHeight || canvas.height;
    Object.assign(this, { graph, theme, ratio, width, height });
    for (const each of [canvas, edges]) { each.width = Math.round(width * ratio); each.height = Math.round(height * ratio); }
    this.fit(places);
    this.drawEdges(relations);
  }

  fit(places) {
    const { width, height } = this, xs = places.map((p) => p[0]), ys = places.map((p) => p[1]);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const pad = Math.min(34, width / 9), wide = right - left, high = bottom - top;
    const scale = Math.min((width - 2 * pad) / (wide || 1e-9), (height - 2 * pad) / (high || 1e-9), wide || high ? Infinity : 1);
    this.toCanvas = ([x, y]) => [width / 2 + (x - (left + right) / 2) * scale, height / 2 + (y - (top + bottom) / 2) * scale];
    this.toPlane = (x, y) => [(x - width / 2) / scale + (left + right) / 2, (y - height / 2) / scale + (top + bottom) / 2];
    this.spots = places.map(this.toCanvas);
    const lengths = this.graph.edges.map(([a, b]) => Math.hypot(this.spots[a][0] - this.spots[b][0], this.spots[a][1] - this.spots[b][1])).sort((a, b) => a - b);
    const usual = lengths.length ? lengths[Math.floor(lengths.length / 3)] : 60;
    this.radius = Math.max(3.6, Math.min(15, 0.3 * usual, width / 24, 64 / Math.sqrt(this.spots.length)));
  }

  drawEdges(relations) {
    const { graph, spots, radius, theme, ratio } = this, context = this.edges.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.lineCap = "round";
    const thin = Math.max(1, Math.min(2.4, radius / 4));
    graph.edges.forEach(([a, b], at) => {
      const relation = relations ? relations[at] : null;
      const [[x, y], [u, v]] = relation === DOWN ? [spots[b], spots[a]] : [spots[a], spots[b]];
      context.setLineDash(relation === TIE ? [thin * 2.2, thin * 2.8] : []);
      context.lineWidth = thin;
      if (relation === UP || relation === DOWN) {
        const along = context.createLinearGradient(x, y, u, v);
        along.addColorStop(0.1, theme.low);
        along.addColorStop(0.9, theme.high);
        context.strokeStyle = along;
      } else context.strokeStyle = relation === TIE ? theme.tie : theme.edge;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(u, v);
      context.stroke();
      const length = Math.hypot(u - x, v - y), size = Math.min(radius * 0.5, length / 6);
      if ((relation !== UP && relation !== DOWN) || size < 1.6) return;
      const [dx, dy] = [(u - x) / length, (v - y) / length], [mx, my] = [x + (u - x) * 0.5, y + (v - y) * 0.5];
      context.setLineDash([]);
      context.lineWidth = thin * 1.15;
      context.strokeStyle = theme.high;
      context.beginPath();
      context.moveTo(mx - size * (dx + 0.8 * dy), my - size * (dy - 0.8 * dx));
      context.lineTo(mx, my);
      context.lineTo(mx - size * (dx - 0.8 * dy), my - size * (dy + 0.8 * dx));
      context.stroke();
    });
  }

  // The state between two layers: messages have gone a share of their way, then colours turn by a share.
  draw(from, to, { sent = 0, turned = 0, messages = true, picked = null, line = null } = {}) {
    const { context, spots, radius, ratio, theme, graph } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const eased = turned * turned * (3 - 2 * turned), isDark = theme.isDark;
    const colours = spots.map((_, node) => colourAt(from[node], to[node], eased, isDark));
    const pulse = radius * (1 + 0.14 * Math.sin(Math.PI * turned) * (messages ? 1 : 0));
    context.globalAlpha = isDark ? 0.3 : 0.24;
    spots.forEach(([x, y], node) => {
      context.fillStyle = colours[node];
      context.beginPath();
      context.arc(x, y, pulse * 1.9, 0, 7);
      context.fill();
    });
    context.globalAlpha = 1;
    context.drawImage(this.edges, 0, 0, this.width, this.height);
    if (messages && sent > 0 && sent < 1) this.drawMessages(from, sent);
    if (line) {
      context.strokeStyle = theme.high;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(...line[0]);
      context.lineTo(...line[1]);
      context.stroke();
    }
    context.lineWidth = Math.max(1, radius / 7);
    context.strokeStyle = theme.rim;
    spots.forEach(([x, y], node) => {
      context.fillStyle = colours[node];
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fill();
      context.stroke();
    });
    if (picked !== null && spots[picked]) {
      context.strokeStyle = theme.ink;
      context.beginPath();
      context.arc(...spots[picked], radius * 1.5, 0, 7);
      context.stroke();
    }
    if (graph.atoms && radius > 6.5) {
      context.fillStyle = theme.onNode;
      context.font = `600 ${Math.round(radius * 1.05)}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      graph.atoms.forEach((atom, node) => { if (atom !== "C") context.fillText(atom, spots[node][0], spots[node][1] + radius * 0.06); });
    }
  }

  // A dot on every edge and way, in the colour of its sender; one path for all dots of a node.
  drawMessages(from, share) {
    const { context, spots, radius, graph } = this, colours = this.coloursOf(from), size = Math.max(1.5, radius * 0.32);
    graph.lists ||= neighboursOf(graph);
    context.globalAlpha = Math.min(1, 2.6 * Math.sin(Math.PI * share));
    graph.lists.forEach((list, node) => {
      const [x, y] = spots[node];
      context.fillStyle = colours[node];
      context.beginPath();
      for (const other of list) {
        const cx = x + (spots[other][0] - x) * share, cy = y + (spots[other][1] - y) * share;
        if (size < 2.2) context.rect(cx - size, cy - size, 2 * size, 2 * size); // a circle of four pixels takes four times as long
        else { context.moveTo(cx + size, cy); context.arc(cx, cy, size, 0, 7); }
      }
      context.fill();
    });
    context.globalAlpha = 1;
  }

  // Colours of a layer, kept while its messages are under way.
  coloursOf(hues) {
    if (this.kept?.hues !== hues || this.kept.isDark !== this.theme.isDark) {
      const { isDark } = this.theme;
      this.kept = { hues, isDark, colours: hues.map((hue) => colourAt(hue, hue, 0, isDark)) };
    }
    return this.kept.colours;
  }

  nodeAt(x, y) {
    let best = null, nearest = (this.radius * 1.6 + 4) ** 2;
    this.spots.forEach(([u, v], node) => {
      const apart = (x - u) ** 2 + (y - v) ** 2;
      if (apart < nearest) { nearest = apart; best = node; }
    });
    return best;
  }
}
