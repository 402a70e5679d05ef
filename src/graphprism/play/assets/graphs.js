// Graphs: {numNodes, edges: [[a, b], ...]} with every undirected edge once, and sometimes places and letters of nodes.
const MOST_NODES = 300;

const GRAPHS = (() => {
  const known = JSON.parse(document.getElementById("graphs").textContent);
  const stored = (name) => () => ({ numNodes: known[name].num_nodes, edges: known[name].edges, atoms: known[name].atoms });

  const path = (size) => ({
    numNodes: size,
    edges: Array.from({ length: size - 1 }, (_, at) => [at, at + 1]),
    points: Array.from({ length: size }, (_, at) => {
      const share = at / Math.max(1, size - 1);
      return [3.2 * share, -0.9 * Math.sin(3 * Math.PI * share)];
    }),
  });

  const star = (size) => ({
    numNodes: size,
    edges: Array.from({ length: size - 1 }, (_, at) => [0, at + 1]),
    points: Array.from({ length: size }, (_, at) => {
      const turn = (2 * Math.PI * (at - 1)) / (size - 1) - Math.PI / 2;
      return at ? [Math.cos(turn), Math.sin(turn)] : [0, 0];
    }),
  });

  const grid = (size) => {
    const columns = Math.ceil(Math.sqrt(size)), edges = [];
    for (let at = 0; at < size; at += 1) {
      if ((at + 1) % columns && at + 1 < size) edges.push([at, at + 1]);
      if (at + columns < size) edges.push([at, at + columns]);
    }
    const points = Array.from({ length: size }, (_, at) => [at % columns, Math.floor(at / columns)]);
    return { numNodes: size, edges, points };
  };

  // Points in a square, each joined to the three nearest ones.
  const random = (size, seed) => {
    const draw = uniforms(seed, STREAMS.points);
    const points = Array.from({ length: size }, (_, at) => [draw(2 * at), draw(2 * at + 1)]);
    const pairs = new Set();
    points.forEach(([x, y], at) => {
      const far = points.map(([u, v], other) => [(x - u) * (x - u) + (y - v) * (y - v), other]).filter((each) => each[1] !== at);
      far.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      for (const [, other] of far.slice(0, 3)) pairs.add(Math.min(at, other) * size + Math.max(at, other));
    });
    const edges = [...pairs].sort((a, b) => a - b).map((pair) => [Math.floor(pair / size), pair % size]);
    return { numNodes: size, edges, points };
  };

  return {
    caffeine: stored("caffeine"), cholesterol: stored("cholesterol"), karate: stored("karate"),
    path, star, grid, random,
  };
})();

// Edges once each, without loops and with the smaller end first.
const simpleEdges = (edges) => {
  const seen = new Map();
  for (const [a, b] of edges) if (a !== b) seen.set(`${Math.min(a, b)} ${Math.max(a, b)}`, [Math.min(a, b), Math.max(a, b)]);
  return [...seen.values()];
};

// "a b", "a,b", "a-b" or "a -> b", a line or a semicolon each; a name alone is a node. Nodes are numbered as they appear,
// or by their numbers where all of them are small ones.
const parseEdges = (text) => {
  const rows = text.split(/[\n;]+/).map((line) => line.replace(/#.*/, "").trim()).filter(Boolean)
    .map((line) => line.split(/\s*(?:->|--|-|,|\t|\s)\s*/).filter(Boolean));
  const wrong = rows.find((row) => row.length > 3);
  if (wrong) throw new Error(`a line must hold two nodes, got "${wrong.join(" ")}"`);
  const names = [...new Set(rows.flatMap((row) => row.slice(0, 2)))];
  const numbers = names.every((name) => /^\d{1,3}$/.test(name)) && names.length > 0;
  const count = numbers ? Math.max(...names.map(Number)) + 1 : names.length;
  if (count > MOST_NODES) throw new Error(`a graph must have at most ${MOST_NODES} nodes here, got ${count}`);
  if (count === 0) throw new Error("a graph must have at least one node, got none");
  const number = new Map(names.map((name, at) => [name, numbers ? Number(name) : at]));
  const edges = rows.filter((row) => row.length > 1).map((row) => [number.get(row[0]), number.get(row[1])]);
  return { numNodes: count, edges: simpleEdges(edges), labels: numbers ? undefined : names };
};
