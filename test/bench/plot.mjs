// Lines on two logarithmic axes, as SVG text.

const WIDTH = 720;
const HEIGHT = 400;
const LEFT = 70;
const RIGHT = 210;
const TOP = 40;
const BOTTOM = 50;
const OWN = "#d6336c";
const COLOURS = ["#8c8c8c", "#b8b8b8", "#1c7ed6", "#2b8a3e", "#e67700", "#7048e8", "#0b7285", "#862e9c", "#5c940d", "#364fc7", "#a61e4d"];

const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");

function short(value) {
  if (value >= 1e6) return `${value / 1e6}M`;
  return value >= 1000 ? `${value / 1000}k` : String(value);
}

/** `lines`: `{ name, points: [[x, y]] }`. */
export function plot({ title, x, y, lines }) {
  const drawn = lines.map(({ name, points }) => ({ name, points: points.filter(([, value]) => value > 0) })).filter(({ points }) => points.length > 0);
  const all = drawn.flatMap(({ points }) => points);
  const range = (values) => [Math.floor(Math.log10(Math.min(...values)) + 1e-9), Math.ceil(Math.log10(Math.max(...values)) - 1e-9)];
  const [left, right] = [Math.log10(Math.min(...all.map(([value]) => value))), Math.log10(Math.max(...all.map(([value]) => value)))];
  const [low, high] = range(all.map(([, value]) => value));
  const atX = (value) => LEFT + ((Math.log10(value) - left) / (right - left)) * (WIDTH - LEFT - RIGHT);
  const atY = (value) => HEIGHT - BOTTOM - ((Math.log10(value) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const text = (at, down, words, more = "") => `<text x="${at.toFixed(1)}" y="${down.toFixed(1)}" ${more}>${escaped(words)}</text>`;
  const parts = [];
  for (let power = low; power <= high; power++) {
    const down = atY(10 ** power);
    parts.push(`<path d="M${LEFT} ${down.toFixed(1)}H${WIDTH - RIGHT}" stroke="#e3e3e3"/>`, text(LEFT - 8, down + 4, short(10 ** power), 'text-anchor="end"'));
  }
  for (const value of [...new Set(all.map(([value]) => value))]) {
    if (/^[135]0*$/.test(String(value))) parts.push(text(atX(value), HEIGHT - BOTTOM + 18, short(value), 'text-anchor="middle"'));
  }
  parts.push(text(LEFT, 22, title, 'font-size="15" font-weight="bold"'), text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x, 'text-anchor="middle"'));
  parts.push(`<text transform="translate(18 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">${escaped(y)}</text>`);
  // The names stand at the ends of their lines, as far apart as they must.
  const ends = drawn.map(({ points }, i) => ({ i, down: atY(points.at(-1)[1]) })).sort((a, b) => a.down - b.down);
  ends.forEach((end, i) => (end.down = Math.max(end.down, i > 0 ? ends[i - 1].down + 15 : TOP)));
  const over = Math.max(0, (ends.at(-1)?.down ?? 0) - (HEIGHT - BOTTOM));
  for (const { i, down } of ends) {
    const { name, points } = drawn[i];
    const isOwn = name.startsWith("yieldagent");
    const colour = isOwn ? OWN : COLOURS[i % COLOURS.length];
    const [endX, endY] = points.at(-1);
    parts.push(`<path d="M${points.map(([one, other]) => `${atX(one).toFixed(1)} ${atY(other).toFixed(1)}`).join("L")}" fill="none" stroke="${colour}" stroke-width="${isOwn ? 3.5 : 1.7}"/>`);
    parts.push(`<path d="M${atX(endX).toFixed(1)} ${atY(endY).toFixed(1)}L${WIDTH - RIGHT + 12} ${(down - over).toFixed(1)}" stroke="${colour}" stroke-dasharray="1 3"/>`);
    parts.push(text(WIDTH - RIGHT + 16, down - over + 4, name, `fill="${colour}"${isOwn ? ' font-weight="bold"' : ""}`));
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#333"><rect width="100%" height="100%" fill="#fff"/>\n${parts.join("\n")}\n</svg>\n`;
}
