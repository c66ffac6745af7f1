/*
 * plot.mjs: a growth curve as SVG: cost over size, both logarithmic, with the
 * line of linear growth through each curve's last point.
 */
const [width, height, left, top, right, bottom] = [720, 440, 80, 44, 170, 56];
const colors = ['#0b6bcb', '#c4501b', '#2b8a3e', '#7048a8', '#8a6d00'];

const escape = (text) => String(text).replace(/[&<>"]/g, (ch) =>
  `&#${ch.charCodeAt(0)};`);
const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M`
  : value >= 1e3 ? `${+(value / 1e3).toPrecision(3)}k`
    : String(+value.toPrecision(3)));

/* A logarithmic axis: the place of a value, and the values at its ticks. */
function axis(values, from, to) {
  const low = Math.log10(Math.min(...values));
  const high = Math.max(Math.log10(Math.max(...values)), low + 0.1);
  const [first, last] = [Math.floor(low), Math.ceil(high)];
  return { at: (value) => from + (to - from)
      * (Math.log10(value) - first) / (last - first),
  ticks: Array.from({ length: last - first + 1 }, (_, i) =>
    10 ** (first + i)) };
}

/* curves: {name: [[size, cost], ...]}; x and y are the axes' words. */
export function plot({ title, x, y, curves }) {
  const points = Object.values(curves).flat();
  const h = axis(points.map(([size]) => size), left, width - right);
  const v = axis(points.map(([, cost]) => cost), height - bottom, top);
  const line = (x1, y1, x2, y2, more) => `<line x1="${x1.toFixed(1)}" y1="${
    y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" ${more}/>`;
  const text = (px, py, words, more = '') => `<text x="${px}" y="${py}" ${
    more}>${escape(words)}</text>`;
  const grid = 'stroke="#ddd"';
  const out = [
    ...h.ticks.flatMap((tick) => [line(h.at(tick), top, h.at(tick),
      height - bottom, grid), text(h.at(tick).toFixed(1),
      height - bottom + 18, short(tick), 'text-anchor="middle"')]),
    ...v.ticks.flatMap((tick) => [line(left, v.at(tick), width - right,
      v.at(tick), grid), text(left - 8, (v.at(tick) + 4).toFixed(1),
      short(tick), 'text-anchor="end"')]),
    text(left, 24, title, 'font-size="16" font-weight="bold"'),
    text((left + width - right) / 2, height - 14, x, 'text-anchor="middle"'),
    text(0, 0, y, `text-anchor="middle" transform="translate(20 ${
      (top + height - bottom) / 2}) rotate(-90)"`)];
  Object.entries(curves).forEach(([name, list], i) => {
    const color = colors[i % colors.length];
    const [size, cost] = list.at(-1);
    /* Linear growth, back to where it leaves the picture. */
    const back = Math.max(list[0][0], size * v.ticks[0] / cost);
    const place = ([px, py]) => `${h.at(px).toFixed(1)},${
      v.at(py).toFixed(1)}`;
    out.push(line(h.at(back), v.at(cost * back / size), h.at(size),
      v.at(cost), `stroke="${color}" stroke-dasharray="4 4" opacity="0.5"`),
    `<polyline fill="none" stroke="${color}" stroke-width="2" points="${
      list.map(place).join(' ')}"/>`,
    ...list.map((point) => `<circle r="3" fill="${color}" cx="${
      place(point).replace(',', '" cy="')}"/>`),
    text(width - right + 12, top + 20 + 20 * i, name, `fill="${color}"`));
  });
  out.push(text(width - right + 12,
    top + 20 + 20 * Object.keys(curves).length, '- - linear growth',
    'fill="#777"'));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${
    height}" font-family="sans-serif" font-size="12" fill="#222">
<rect width="100%" height="100%" fill="#fff"/>
${out.join('\n')}
</svg>
`;
}

/*
 * The exponent of growth: the slope of cost over size, both logarithmic, in
 * the upper half of the sizes; fixed costs hide it in the lower half.
 */
export function exponent(list) {
  const middle = Math.sqrt(list[0][0] * list.at(-1)[0]);
  const upper = list.filter(([size], i) =>
    size >= middle * 0.99 || i >= list.length - 2)
    .map(([size, cost]) => [Math.log(size), Math.log(cost)]);
  const mean = (i) => upper.reduce((sum, one) => sum + one[i], 0)
    / upper.length;
  const [mx, my] = [mean(0), mean(1)];
  return upper.reduce((sum, [x, y]) => sum + (x - mx) * (y - my), 0)
    / upper.reduce((sum, [x]) => sum + (x - mx) ** 2, 0);
}
