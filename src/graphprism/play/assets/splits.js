// Orderings of nodes and the relations of edges that follow from them, as graphprism.splitting has them.
const UP = 0, DOWN = 1, TIE = 2;

const neighboursOf = ({ numNodes, edges }) => {
  const lists = Array.from({ length: numNodes }, () => []);
  for (const [a, b] of edges) { lists[a].push(b); lists[b].push(a); }
  return lists;
};

const ORDERINGS = (() => {
  const degree = (graph) => neighboursOf(graph).map((list) => list.length);

  const ppr = (graph) => {
    const lists = neighboursOf(graph), scale = lists.map((list) => 1 / Math.sqrt(list.length + 1));
    let rank = lists.map(() => 1);
    for (let step = 0; step < 15; step += 1) {
      const sent = rank.map((value, at) => scale[at] * value);
      rank = lists.map((list, at) => 0.9 * scale[at] * (list.reduce((sum, other) => sum + sent[other], 0) + sent[at]) + 0.1);
    }
    return rank;
  };

  const core = (graph) => {
    const lists = neighboursOf(graph), left = lists.map((list) => list.length), number = lists.map(() => -1);
    for (let level = 0, gone = 0; gone < lists.length; level += 1) {
      const stack = [...left.keys()].filter((at) => number[at] < 0 && left[at] <= level);
      for (const at of stack) number[at] = level;
      while (stack.length) {
        gone += 1;
        for (const other of lists[stack.pop()]) {
          if (number[other] >= 0) continue;
          left[other] -= 1;
          if (left[other] <= level) { number[other] = level; stack.push(other); }
        }
      }
    }
    return number;
  };

  const triangles = (graph) => {
    const lists = neighboursOf(graph).map((list) => new Set(list)), count = lists.map(() => 0);
    for (const [a, b] of graph.edges) for (const c of lists[a]) if (lists[b].has(c)) count[c] += 1;
    return count;
  };

  const eigenvector = (graph) => {
    const lists = neighboursOf(graph);
    let value = lists.map(() => 1);
    for (let step = 0; step < 100; step += 1) {
      const next = lists.map((list, at) => value[at] + list.reduce((sum, other) => sum + value[other], 0));
      const largest = Math.max(...next);
      value = next.map((each) => each / largest);
    }
    return value;
  };

  const bfs = (graph) => {
    const lists = neighboursOf(graph), most = Math.max(...lists.map((list) => list.length));
    const distance = lists.map((list) => (list.length === most ? 0 : lists.length));
    const queue = [...distance.keys()].filter((at) => distance[at] === 0);
    for (const at of queue) {
      for (const other of lists[at]) {
        if (distance[other] === lists.length) { distance[other] = distance[at] + 1; queue.push(other); }
      }
    }
    return distance;
  };

  // The splitmix64 finaliser, on BigInt; a few thousand calls take a millisecond.
  const wrap = (x) => BigInt.asUintN(64, x);
  const mix64 = (x) => {
    x = wrap(x + 0x9e3779b97f4a7c15n);
    x = wrap((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
    x = wrap((x ^ (x >> 27n)) * 0x94d049bb133111ebn);
    return x ^ (x >> 31n);
  };
  const random = (graph) => {
    let sum = 0n;
    for (const [a, b] of graph.edges) {
      for (const [from, to] of [[a, b], [b, a]]) sum = wrap(sum + mix64(mix64(BigInt(from)) + BigInt(to)));
    }
    const key = mix64(sum + mix64(BigInt(graph.numNodes) + mix64(0n)));
    const value = Array.from({ length: graph.numNodes }, (_, at) => BigInt.asIntN(64, mix64(key ^ mix64(BigInt(at)))));
    const order = [...value.keys()].sort((a, b) => (value[a] < value[b] ? -1 : 1)), rank = [];
    order.forEach((node, place) => { rank[node] = place; });
    return rank;
  };

  const features = (graph) => graph.features.map((row) => row.reduce((sum, each) => sum + each, 0));

  return { degree, ppr, core, triangles, eigenvector, bfs, random, features };
})();

// Floats tie within rounding; whole numbers are exact within it, too.
const comparison = (values) => {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return (a, b) => {
    const margin = 1e-9 * Math.max(Math.abs(values[a]), Math.abs(values[b])) + 1e-12 * largest;
    const difference = values[b] - values[a];
    return difference > margin ? UP : difference < -margin ? DOWN : TIE;
  };
};

// Relation of a -> b for every edge; that of b -> a is its mirror. "none" is one relation.
const splitEdges = (graph, split) => {
  if (split === "none") return graph.edges.map(() => 0);
  const compare = split.split(",").map((name) => comparison(ORDERINGS[name](graph)));
  return graph.edges.map(([a, b]) => {
    for (const each of compare) if (each(a, b) !== TIE) return each(a, b);
    return TIE;
  });
};
const mirrored = (relation) => (relation === UP ? DOWN : relation === DOWN ? UP : relation);
