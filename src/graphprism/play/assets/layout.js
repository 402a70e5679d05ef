// Places of nodes in the plane: distances follow the number of steps between nodes (stress majorisation). Turned to fill a
// box of that aspect, width by height.
const layoutOf = (graph, aspect) => {
  if (graph.points) return graph.points.map((point) => [...point]);
  const lists = neighboursOf(graph), n = graph.numNodes;
  if (n === 1) return [[0, 0]];
  const steps = lists.map((_, from) => {
    const distance = new Float64Array(n).fill(Infinity), queue = [from];
    distance[from] = 0;
    for (const at of queue) for (const other of lists[at]) if (distance[other] === Infinity) { distance[other] = distance[at] + 1; queue.push(other); }
    return distance;
  });
  const far = Math.max(...steps.flatMap((row) => [...row].filter(Number.isFinite)), 1);
  for (const row of steps) row.forEach((value, at) => { if (value === Infinity) row[at] = far + 1.5; });
  const places = scaledSteps(steps, n);
  for (let round = 0; round < 120; round += 1) {
    for (let i = 0; i < n; i += 1) {
      let x = 0, y = 0, all = 0;
      for (let j = 0; j < n; j += 1) {
        if (i === j) continue;
        const d = steps[i][j], weight = 1 / (d * d), dx = places[i][0] - places[j][0], dy = places[i][1] - places[j][1];
        const apart = Math.max(1e-9, Math.hypot(dx, dy));
        x += weight * (places[j][0] + (d * dx) / apart);
        y += weight * (places[j][1] + (d * dy) / apart);
        all += weight;
      }
      places[i] = [x / all, y / all];
    }
  }
  return turnedToFill(places, aspect);
};

// The start: the two leading eigenvectors of the doubly centred squares, by the power method.
const scaledSteps = (steps, n) => {
  const means = steps.map((row) => row.reduce((sum, value) => sum + value * value, 0) / n);
  const mean = means.reduce((sum, value) => sum + value, 0) / n, draw = uniforms(11, 0), found = [];
  for (let number = 0; number < 2; number += 1) {
    let vector = Float64Array.from({ length: n }, (_, at) => draw(at + number * n) - 0.5), value = 0;
    for (let round = 0; round < 60; round += 1) {
      const next = new Float64Array(n);
      for (let i = 0; i < n; i += 1) for (let j = 0; j < n; j += 1) next[i] -= 0.5 * (steps[i][j] ** 2 - means[i] - means[j] + mean) * vector[j];
      for (const [other] of found) { const inner = next.reduce((sum, each, at) => sum + each * other[at], 0); next.forEach((_, at) => { next[at] -= inner * other[at]; }); }
      value = Math.sqrt(next.reduce((sum, each) => sum + each * each, 0));
      vector = next.map((each) => each / (value || 1));
    }
    found.push([vector, Math.sqrt(value)]);
  }
  // twins, such as the leaves of a star, would start at one point and never part
  return steps.map((_, at) => found.map(([vector, length], number) => vector[at] * length + 0.1 * (draw(3 * n + 2 * at + number) - 0.5)));
};

const turnedToFill = (places, aspect) => {
  const turned = Array.from({ length: 36 }, (_, at) => {
    const cosine = Math.cos((at * Math.PI) / 36), sine = Math.sin((at * Math.PI) / 36);
    return places.map(([x, y]) => [cosine * x - sine * y, sine * x + cosine * y]);
  });
  const extent = (points, axis) => Math.max(...points.map((p) => p[axis])) - Math.min(...points.map((p) => p[axis]));
  const needed = turned.map((points) => Math.max(extent(points, 0) / aspect, extent(points, 1)));
  return turned[needed.indexOf(Math.min(...needed))];
};
