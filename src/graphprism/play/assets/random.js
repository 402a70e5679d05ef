"use strict";
// The random numbers of the page: a hash of (seed, stream, index), so that a weight depends on nothing drawn before it.
// graphprism/play/simulate.py has the same function; a test compares the two.
const mix32 = (x) => {
  x = (x + 0x9e3779b9) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return x ^ (x >>> 15);
};

// Numbers in (0, 1), the index-th of a stream.
const uniforms = (seed, stream) => {
  const key = mix32(mix32(seed) ^ stream);
  return (index) => ((mix32(key ^ mix32(index)) >>> 0) + 0.5) / 2 ** 32;
};

const STREAMS = { features: 0, points: 1, weights: 2 };
// A layer has four streams: the matrix of GCN, and one for each relation of MRS-GCN.
const weightStream = (layer, part) => STREAMS.weights + 4 * layer + part;
