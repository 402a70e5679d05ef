// What is proven about MRSGCNConv on a graph with a split: graphprism.certify(..., layer=MRSGCNConv), for one graph.
const certificate = (() => {
  const TOLERANCE = 1e-9;

  const inDegrees = (graph, relations, count) => {
    const into = messagesOf(graph, relations, count);
    return Array.from({ length: graph.numNodes }, (_, node) => into.map((lists) => lists[node].reduce((sum, [, share]) => sum + share, 0)));
  };

  // Rows of one direction get one number, by the entries of d d^T / |d|^2; rows of zeros get -1.
  const directions = (rows) => {
    const groups = rows.map((row) => (row.some((each) => each !== 0) ? 0 : -1));
    const kept = [...groups.keys()].filter((at) => groups[at] === 0);
    const entry = (at, p, q) => (rows[at][p] * rows[at][q]) / rows[at].reduce((sum, each) => sum + each * each, 0);
    for (let count = 0, before = -1; count !== before;) {
      before = count;
      for (let p = 0; p < rows[0].length; p += 1) {
        for (let q = p; q < rows[0].length; q += 1) {
          const values = new Map(kept.map((at) => [at, entry(at, p, q)]));
          const order = [...kept].sort((a, b) => groups[a] - groups[b] || values.get(a) - values.get(b));
          let number = -1;
          const next = order.map((at, place) => {
            const last = order[place - 1];
            if (place === 0 || groups[at] !== groups[last] || values.get(at) - values.get(last) > TOLERANCE) number += 1;
            return number;
          });
          order.forEach((at, place) => { groups[at] = next[place]; });
          count = number + 1;
        }
      }
    }
    return groups;
  };

  const rankOf = (rows) => {
    let left = rows.map((row) => { const length = Math.hypot(...row); return row.map((each) => each / length); }), rank = 0;
    while (left.length && rank < rows[0].length) {
      const lengths = left.map((row) => Math.hypot(...row)), longest = lengths.indexOf(Math.max(...lengths));
      if (lengths[longest] <= TOLERANCE) break;
      const basis = left[longest].map((each) => each / lengths[longest]);
      rank += 1;
      left = left.map((row) => { const inner = row.reduce((sum, each, at) => sum + each * basis[at], 0); return row.map((each, at) => each - inner * basis[at]); });
    }
    return rank;
  };

  const pairs = (count) => (count * (count - 1)) / 2;

  // Rounded half to even; "0 %" and "100 %" only if they are exact.
  const percent = (part, whole) => {
    if (part === 0 || part === whole) return part === 0 ? "0 %" : "100 %";
    for (let digits = 0; ; digits += 1) {
      const scaled = BigInt(part) * 100n * 10n ** BigInt(digits), all = BigInt(whole);
      let quotient = scaled / all;
      const twice = 2n * (scaled % all);
      if (twice > all || (twice === all && quotient % 2n === 1n)) quotient += 1n;
      if (quotient === 0n || quotient === 100n * 10n ** BigInt(digits)) continue;
      const text = String(quotient).padStart(digits + 1, "0");
      return `${digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text} %`;
    }
  };

  return (graph, relations, split, width) => {
    const rows = inDegrees(graph, relations, split === "none" ? 1 : 3), groups = directions(rows), sizes = [];
    const first = [];
    groups.forEach((group, at) => {
      if (group < 0) return;
      if (!sizes[group]) first.push(rows[at]);
      sizes[group] = (sizes[group] || 0) + 1;
    });
    const counted = sizes.reduce((sum, size) => sum + size, 0);
    const independent = pairs(counted) - sizes.reduce((sum, size) => sum + pairs(size), 0), total = pairs(graph.numNodes);
    const rank = Math.min(width, Math.max(first.length ? rankOf(first) : 0, Math.min(2, first.length)));
    const sentence = independent === 0
      ? "MRSGCNConv: no two nodes are structurally independent on this graph; nothing is proven to keep the output from rank one."
      : `MRSGCNConv has, for generic weights and input (almost all, not all), rank at least ${rank}; ${percent(independent, total)} of node `
        + "pairs are distinguished (mapped to linearly independent vectors), on one relation 0 %. Proven for an injective activation, such "
        + "as tanh, or none; sufficient, not necessary. It says nothing about accuracy.";
    return { sentence, rank, independent, total, share: total ? independent / total : 0 };
  };
})();
