// Both networks with random weights, layer by layer, and how far each state is from one signal.
const drawFeatures = (numNodes, width, seed) => {
  const draw = uniforms(seed, STREAMS.features), x = new Float64Array(numNodes * width);
  for (let at = 0; at < x.length; at += 1) x[at] = 2 * draw(at) - 1;
  return x;
};

const drawMatrix = (width, seed, stream) => {
  const draw = uniforms(seed, stream), bound = Math.sqrt(3 / width), matrix = new Float64Array(width * width);
  for (let at = 0; at < matrix.length; at += 1) matrix[at] = (2 * draw(at) - 1) * bound;
  return matrix;
};

// For each relation and node: the senders of its messages with 1 / sqrt(d_i d_j).
const messagesOf = (graph, relations, count) => {
  const root = neighboursOf(graph).map((list) => (list.length ? 1 / Math.sqrt(list.length) : 0));
  const into = Array.from({ length: count }, () => Array.from({ length: graph.numNodes }, () => []));
  graph.edges.forEach(([a, b], at) => {
    into[relations[at]][b].push([a, root[a] * root[b]]);
    into[count > 1 ? mirrored(relations[at]) : 0][a].push([b, root[a] * root[b]]);
  });
  return into;
};

class Network {
  // Relations of a -> b by edge; one relation is GCN. Weights are drawn anew for each layer.
  constructor(graph, relations, count, { seed, width, part, places }) {
    Object.assign(this, { seed, width, part, count, numNodes: graph.numNodes });
    this.into = messagesOf(graph, relations, count);
    this.x = drawFeatures(graph.numNodes, width, seed);
    this.distance = [];
    this.rank = [];
    this.hues = []; // for each layer (N, 2): where a node's direction lies beside the common one
    this.record(places);
  }

  get layers() { return this.distance.length - 1; }

  step() {
    const { numNodes, width } = this, layer = this.layers, out = new Float64Array(numNodes * width);
    const sum = new Float64Array(width);
    for (let relation = 0; relation < this.count; relation += 1) {
      const weight = drawMatrix(width, this.seed, weightStream(layer, this.part + relation)), into = this.into[relation];
      for (let node = 0; node < numNodes; node += 1) {
        if (!into[node].length) continue;
        sum.fill(0);
        for (const [from, share] of into[node]) {
          for (let at = 0, place = from * width; at < width; at += 1, place += 1) sum[at] += share * this.x[place];
        }
        const start = node * width;
        for (let at = 0; at < width; at += 1) {
          const value = sum[at];
          if (value !== 0) for (let to = 0, place = at * width; to < width; to += 1, place += 1) out[start + to] += value * weight[place];
        }
      }
    }
    for (let at = 0; at < out.length; at += 1) if (out[at] < 0) out[at] = 0;
    this.x = out;
    this.record(this.hues[this.hues.length - 1]);
  }

  record(before) {
    const { distance, rank } = measure(this.x, this.numNodes, this.width);
    this.distance.push(distance);
    this.rank.push(rank);
    this.hues.push(beside(this.x, this.numNodes, this.width, before));
  }
}

// Rank-one distance and effective rank of an (n, k) matrix, NaN where it is all zeros.
const measure = (x, n, k) => {
  let scale = 0;
  for (const value of x) scale = Math.max(scale, Math.abs(value));
  if (!(scale > 0) || !Number.isFinite(scale)) return { distance: NaN, rank: NaN };
  const rows = Math.max(n, k), columns = Math.min(n, k), tall = new Float64Array(rows * columns);
  for (let row = 0; row < n; row += 1) {
    for (let column = 0; column < k; column += 1) {
      tall[n >= k ? row * columns + column : column * columns + row] = x[row * k + column] / scale;
    }
  }
  const norm = (at) => { let sum = 0; for (let c = 0; c < columns; c += 1) sum += tall[at * columns + c] ** 2; return sum; };
  let longest = 0;
  for (let at = 1, best = norm(0); at < rows; at += 1) { const here = norm(at); if (here > best) { best = here; longest = at; } }
  const row = unit(Float64Array.from({ length: columns }, (_, c) => tall[longest * columns + c]));
  const core = triangle(tall, rows, columns); // (columns, columns), the same singular values
  const lengths = Array.from({ length: columns }, (_, c) => { let sum = 0; for (let r = 0; r < columns; r += 1) sum += core[r * columns + c] ** 2; return sum; });
  const widest = lengths.indexOf(Math.max(...lengths));
  const column = unit(Float64Array.from({ length: columns }, (_, r) => core[r * columns + widest]));
  const values = singularValues(core, columns), nuclear = values.reduce((sum, value) => sum + value, 0);
  let inner = 0;
  for (let r = 0; r < columns; r += 1) for (let c = 0; c < columns; c += 1) inner += core[r * columns + c] * column[r] * row[c];
  const sign = inner < 0 ? -1 : 1;
  const difference = core.map((value, at) => value / nuclear - sign * column[Math.floor(at / columns)] * row[at % columns]);
  const distance = singularValues(difference, columns).reduce((sum, value) => sum + value, 0);
  let entropy = 0;
  for (const value of values) if (value > 0) entropy -= (value / nuclear) * Math.log(value / nuclear);
  return { distance, rank: Math.exp(entropy) };
};

const unit = (vector) => {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return vector.map((value) => value / length);
};

// The triangle of a QR factorisation by Householder's reflections, (k, k).
const triangle = (matrix, n, k) => {
  const a = Float64Array.from(matrix);
  for (let at = 0; at < k && at < n - 1; at += 1) {
    let length = 0;
    for (let row = at; row < n; row += 1) length += a[row * k + at] ** 2;
    length = Math.sqrt(length);
    if (length === 0) continue;
    const pivot = a[at * k + at], alpha = pivot > 0 ? -length : length, first = pivot - alpha;
    const half = length * (length + Math.abs(pivot)); // |v|^2 / 2 of v = (first, rest)
    for (let column = at + 1; column < k; column += 1) {
      let inner = first * a[at * k + column];
      for (let row = at + 1; row < n; row += 1) inner += a[row * k + at] * a[row * k + column];
      inner /= half;
      a[at * k + column] -= inner * first;
      for (let row = at + 1; row < n; row += 1) a[row * k + column] -= inner * a[row * k + at];
    }
    a[at * k + at] = alpha;
    for (let row = at + 1; row < n; row += 1) a[row * k + at] = 0;
  }
  return a.slice(0, k * k);
};

// Singular values of a (k, k) matrix by Jacobi's rotations of columns, kept as rows of the transpose.
const singularValues = (matrix, k) => {
  const a = new Float64Array(k * k);
  for (let row = 0; row < k; row += 1) for (let column = 0; column < k; column += 1) a[column * k + row] = matrix[row * k + column];
  for (let sweep = 0, turned = true; turned && sweep < 40; sweep += 1) {
    turned = false;
    for (let p = 0; p < k - 1; p += 1) {
      for (let q = p + 1; q < k; q += 1) {
        let alpha = 0, beta = 0, gamma = 0;
        for (let at = 0; at < k; at += 1) {
          const u = a[p * k + at], v = a[q * k + at];
          alpha += u * u; beta += v * v; gamma += u * v;
        }
        if (Math.abs(gamma) <= 1e-15 * Math.sqrt(alpha * beta) || alpha === 0 || beta === 0) continue;
        turned = true;
        const zeta = (beta - alpha) / (2 * gamma);
        const tangent = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
        const cosine = 1 / Math.sqrt(1 + tangent * tangent), sine = cosine * tangent;
        for (let at = 0; at < k; at += 1) {
          const u = a[p * k + at], v = a[q * k + at];
          a[p * k + at] = cosine * u - sine * v;
          a[q * k + at] = sine * u + cosine * v;
        }
      }
    }
  }
  const values = [];
  for (let p = 0; p < k; p += 1) {
    let sum = 0;
    for (let at = 0; at < k; at += 1) sum += a[p * k + at] ** 2;
    values.push(Math.sqrt(sum));
  }
  return values;
};

// Colour of a node: the two coordinates of its direction that are most spread, beside the direction which all share.
// Nodes with multiples of one signal lie at (0, 0), which is grey. Turned as the layer before, so that colours stay.
const beside = (x, n, k, before) => {
  const y = new Float64Array(n * k);
  for (let node = 0; node < n; node += 1) {
    let length = 0;
    for (let at = 0; at < k; at += 1) length += x[node * k + at] ** 2;
    length = Math.sqrt(length);
    if (length > 0) for (let at = 0; at < k; at += 1) y[node * k + at] = x[node * k + at] / length;
  }
  const draw = uniforms(7, 0), basis = [0, 1, 2].slice(0, k).map((column) => Float64Array.from({ length: k }, (_, at) => (column ? draw(column * k + at) - 0.5 : 1)));
  for (let round = 0; round < 12; round += 1) {
    basis.forEach((vector, number) => {
      const next = new Float64Array(k);
      for (let node = 0; node < n; node += 1) {
        let inner = 0;
        for (let at = 0; at < k; at += 1) inner += y[node * k + at] * vector[at];
        for (let at = 0; at < k; at += 1) next[at] += inner * y[node * k + at];
      }
      for (const other of basis.slice(0, number)) {
        let inner = 0;
        for (let at = 0; at < k; at += 1) inner += next[at] * other[at];
        for (let at = 0; at < k; at += 1) next[at] -= inner * other[at];
      }
      let length = Math.sqrt(next.reduce((sum, value) => sum + value * value, 0));
      // what rounding leaves of a second direction is none
      basis[number] = length > 1e-13 * n ? next.map((value) => value / length) : new Float64Array(k);
    });
  }
  const found = Array.from({ length: n }, (_, node) => [1, 2].map((number) => {
    if (!basis[number]) return 0;
    let inner = 0;
    for (let at = 0; at < k; at += 1) inner += y[node * k + at] * basis[number][at];
    return inner;
  }));
  return before ? turnedTo(found, before) : found;
};

// The rotation or reflection of the plane that brings points nearest to others.
const turnedTo = (points, others) => {
  let xx = 0, xy = 0, yx = 0, yy = 0;
  points.forEach(([a, b], at) => {
    const [u, v] = others[at];
    xx += a * u; xy += a * v; yx += b * u; yy += b * v;
  });
  const turn = Math.hypot(xx + yy, xy - yx), flip = Math.hypot(xx - yy, xy + yx);
  if (turn === 0 && flip === 0) return points;
  if (turn >= flip) {
    const cosine = (xx + yy) / turn, sine = (xy - yx) / turn;
    return points.map(([a, b]) => [cosine * a - sine * b, sine * a + cosine * b]);
  }
  const cosine = (xx - yy) / flip, sine = (xy + yx) / flip;
  return points.map(([a, b]) => [cosine * a + sine * b, sine * a - cosine * b]);
};

const MRS = "MRS-GCN";
// Both networks on a graph, before any layer.
const makeNetworks = (graph, { split, seed, width }, places) => {
  const features = drawFeatures(graph.numNodes, width, seed);
  graph.features = Array.from({ length: graph.numNodes }, (_, at) => features.slice(at * width, (at + 1) * width));
  const relations = splitEdges(graph, split), none = graph.edges.map(() => 0);
  return {
    relations,
    GCN: new Network(graph, none, 1, { seed, width, part: 0, places }),
    [MRS]: new Network(graph, relations, split === "none" ? 1 : 3, { seed, width, part: 1, places }),
  };
};
