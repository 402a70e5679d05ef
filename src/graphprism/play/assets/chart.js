// A curve of each network over layers; what the playhead has not reached is pale. Returns what draws the heads of the lines.
const drawCurves = (context, box, { series, at, depth, log, theme, size = 12 }) => {
  const finite = series.flatMap((each) => each.values.slice(0, depth + 1)).filter((value) => value > 0);
  const high = log ? 2 : Math.max(2, Math.ceil(Math.max(...finite, 1)));
  const low = log ? 10 ** Math.max(-12, Math.min(-2, Math.floor(Math.log10(Math.min(...finite, 0.05))))) : 1;
  const ticks = [];
  if (log) {
    const decades = Math.round(Math.log10(1 / low)), every = Math.max(1, Math.ceil(decades / 4));
    for (let power = 0; power <= decades; power += every) ticks.push([10 ** -power, power < 3 ? String(10 ** -power) : `1e−${power}`]);
  } else {
    const every = [1, 2, 5, 10].find((step) => (high - low) / step <= 4.5) || 10;
    for (let value = 0; value <= high; value += every) ticks.push([Math.max(1, value), String(Math.max(1, value))]);
  }
  context.font = `${size}px system-ui, sans-serif`;
  const widest = Math.max(...ticks.map(([, text]) => context.measureText(text).width));
  const left = box.x + size * 1.4 + widest, right = box.x + box.width - size * 1.6, top = box.y + size, bottom = box.y + box.height - size * 2;
  const x = (layer) => left + ((right - left) * layer) / depth;
  const share = (value) => (log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low));
  const y = (value) => bottom - (bottom - top) * Math.max(0, Math.min(1, share(value)));
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (const [value, text] of ticks) {
    context.strokeStyle = theme.grid;
    context.beginPath();
    context.moveTo(left, y(value));
    context.lineTo(right, y(value));
    context.stroke();
    context.fillStyle = theme.soft;
    context.textAlign = "right";
    context.fillText(text, left - size * 0.5, y(value));
  }
  context.textAlign = "center";
  const most = Math.min(8, (right - left) / (size * 2.6)), step = [1, 2, 4, 8, 16, 32, 64].find((each) => depth / each <= most) || depth;
  for (let layer = 0; layer <= depth; layer += step) context.fillText(String(layer), x(layer), bottom + size * 1.1);
  context.lineJoin = "round";
  const line = (values, from, to) => {
    context.beginPath();
    let drawing = false;
    for (let layer = from; layer <= to && layer < values.length; layer += 1) {
      if (!(values[layer] >= 0)) { drawing = false; continue; }
      if (drawing) context.lineTo(x(layer), y(values[layer]));
      else context.moveTo(x(layer), y(values[layer]));
      drawing = true;
    }
    context.stroke();
  };
  const reached = Math.floor(at);
  for (const { values, colour, dash } of series) {
    context.strokeStyle = context.fillStyle = colour;
    context.setLineDash(dash || []);
    context.lineWidth = size / 8;
    context.globalAlpha = 0.28;
    line(values, reached, depth);
    context.globalAlpha = 1;
    context.lineWidth = size / 5;
    line(values, 0, reached);
    context.setLineDash([]);
  }
  return (target, now) => {
    for (const { values, colour } of series) {
      const from = Math.floor(now);
      if (!(values[from] >= 0)) continue;
      const here = y(values[from]), next = values[from + 1] >= 0 ? y(values[from + 1]) : here, place = here + (next - here) * (now - from);
      target.strokeStyle = target.fillStyle = colour;
      target.lineWidth = size / 5;
      target.beginPath();
      target.moveTo(x(from), here);
      target.lineTo(x(now), place);
      target.stroke();
      target.beginPath();
      target.arc(x(now), place, size / 2.6, 0, 7);
      target.fill();
    }
  };
};
