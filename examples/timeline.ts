/** Times are in ms since the beginning. */
export interface Bar {
  from: number;
  to: number;
  kind: "up" | "work" | "person";
}
export interface Row {
  label: string;
  bars: readonly Bar[];
  /** Where a kill hit this row only. */
  kills?: readonly number[];
  /** Stands after the last bar. */
  text?: string;
}
export interface Timeline {
  title: string;
  end: number;
  rows: readonly Row[];
  /** Kills that hit everything below. */
  kills?: readonly number[];
  /** When each of many things had happened: a line that rises. */
  counts?: { label: string; at: readonly number[]; kind: Bar["kind"] }[];
}

const [WIDTH, LEFT, RIGHT, TOP, ROW, CURVE] = [740, 176, 24, 64, 24, 110];
const COLOURS = { text: ["#1f2328", "#e6edf3"], faint: ["#59636e", "#9198a1"], line: ["#d1d9e0", "#3d444d"], paper: ["#ffffff", "#0d1117"], up: ["#c8d1da", "#444c56"], work: ["#1c7ed6", "#4dabf7"], person: ["#e8890c", "#ffa94d"], kill: ["#cf222e", "#ff7b72"] };

/** What a run did, as a picture for a README: an SVG that is readable in light and dark. */
export function timeline({ title, end, rows, kills = [], counts = [] }: Timeline): string {
  const bottom = TOP + rows.length * ROW;
  const height = bottom + (counts.length > 0 ? CURVE + 14 : 0) + 34;
  const x = (at: number): string => (LEFT + (at / end) * (WIDTH - LEFT - RIGHT)).toFixed(1);
  const text = (at: string | number, down: number, words: string, look = "", more = ""): string => `<text x="${at}" y="${down}"${look && ` class="${look}"`}${more && ` ${more}`}>${words.replace(/&/g, "&amp;").replace(/</g, "&lt;")}</text>`;
  const cross = (at: number, down: number): string => `<path class="kill" d="M${x(at)} ${down}m-4.5 -4.5l9 9m0 -9l-9 9"/>`;
  const parts = [text(14, 24, title, "title")];

  const step = [200, 500, 1000, 2000, 5000, 10_000].find((step) => end / step <= 10) ?? 20_000;
  for (let at = 0; at <= end; at += step) parts.push(`<path class="line" d="M${x(at)} ${TOP - 6}V${height - 30}"/>`, text(x(at), height - 14, `${at / 1000} s`, "faint", 'text-anchor="middle"'));
  for (const at of kills) parts.push(`<path class="kill dashed" d="M${x(at)} ${TOP - 4}V${bottom}"/>`, text(x(at), TOP - 10, "kill -9", "killed", 'text-anchor="middle"'));
  rows.forEach(({ label, bars, kills = [], text: words }, i) => {
    const middle = TOP + i * ROW + ROW / 2;
    parts.push(text(LEFT - 12, middle + 4, label, "", 'text-anchor="end"'));
    for (const { from, to, kind } of bars) {
      const size = kind === "up" ? 8 : 12;
      parts.push(`<rect class="${kind}" x="${x(from)}" y="${middle - size / 2}" width="${Math.max(3, Number(x(to)) - Number(x(from))).toFixed(1)}" height="${size}" rx="2"/>`);
    }
    for (const at of kills) parts.push(cross(at, middle));
    const last = Math.max(...bars.map(({ to }) => to));
    const first = Math.min(...bars.map(({ from }) => from));
    // Beside the bars, on the side where there is room.
    if (words) parts.push(last < end * 0.6 ? text(Number(x(last)) + 9, middle + 4, words, "faint halo") : text(Number(x(first)) - 9, middle + 4, words, "faint halo", 'text-anchor="end"'));
  });

  counts.forEach(({ label, at, kind }, i) => {
    const all = [...at].sort((a, b) => a - b);
    const y = (count: number): string => (bottom + 14 + CURVE - (count / all.length) * CURVE).toFixed(1);
    parts.push(`<path class="curve ${kind}" d="M${x(0)} ${y(0)}${all.map((at, n) => `H${x(at)}V${y(n + 1)}`).join("")}H${x(end)}"/>`);
    parts.push(text(LEFT - 12, bottom + 26 + i * 18, label, `${kind} bold`, 'text-anchor="end"'));
  });

  const style = (dark: 0 | 1): string => Object.entries({
    "text": `fill:${COLOURS.text[dark]}`, ".faint": `fill:${COLOURS.faint[dark]}`, ".paper": `fill:${COLOURS.paper[dark]}`, ".line": `stroke:${COLOURS.line[dark]}`,
    ".up": `fill:${COLOURS.up[dark]}`, ".work": `fill:${COLOURS.work[dark]}`, ".person": `fill:${COLOURS.person[dark]}`, ".kill": `stroke:${COLOURS.kill[dark]}`, ".killed": `fill:${COLOURS.kill[dark]}`,
    ".halo": `stroke:${COLOURS.paper[dark]}`, ".curve.work": `stroke:${COLOURS.work[dark]}`, ".curve.person": `stroke:${COLOURS.person[dark]}`,
  }).map(([name, rule]) => `${name}{${rule}}`).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" font-family="system-ui,sans-serif" font-size="12">
<style>${style(0)}.title{font-size:14px;font-weight:600}.bold{font-weight:600}.kill{stroke-width:2.4;fill:none}.dashed{stroke-width:1.4;stroke-dasharray:3 3}.curve.work,.curve.person{fill:none;stroke-width:2}.halo{paint-order:stroke;stroke-width:4px}
@media(prefers-color-scheme:dark){${style(1)}.kill,.curve.work,.curve.person{fill:none}}</style>
<rect class="paper" width="100%" height="100%" rx="6"/>
${parts.join("\n")}
</svg>
`;
}
