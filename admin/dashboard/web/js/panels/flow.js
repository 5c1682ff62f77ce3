// The flow: six figures, two plots and their table.
import { h, render } from "../dom.js";
import { plot } from "../plot.js";
import * as f from "../format.js";
import { table } from "../parts.js";

const SHOWN = 300; // seconds
const CALM = 5; // seconds that a figure is the mean of: one second alone is restless

let points = []; // the oldest first, one a second
let plots = null;

// take adds what the API told: a Series whose points may overlap with those that are here.
export function take(series) {
  const from = Math.round(Date.parse(series.from) / 1000);
  const known = new Map(points.map((p) => [p.t, p]));
  series.points.forEach((p, i) => known.set(from + i * series.step, { t: from + i * series.step, ...p }));
  const last = Math.max(...known.keys());
  points = [...known.values()].filter((p) => p.t > last - SHOWN).sort((a, b) => a.t - b.t);
}

// since says how many seconds the API must tell of.
export const since = (now) => (points.length === 0 ? SHOWN : Math.min(SHOWN, Math.max(3, Math.ceil(now / 1000 - points.at(-1).t) + 2)));

const mean = (name) => {
  const last = points.slice(-CALM);
  return last.length === 0 ? NaN : last.reduce((sum, p) => sum + p[name], 0) / last.length;
};

// latest is the last known value over the same few seconds: a quiet second has no latency.
const latest = (name) => points.slice(-CALM).findLast((p) => p.requests > 0)?.[name];

export function figures(status) {
  const requests = mean("requests"), refused = mean("refused");
  const figure = (name, value, unit, tone) => h("div", { key: name, class: tone }, h("dt", null, name), h("dd", null, value, unit && h("small", null, unit)));
  render(document.getElementById("figures"), h("dl", { class: "figures" },
    figure("Requests", f.rate(requests), "/s"),
    figure("Refused", f.rate(refused), "/s", refused > 0 ? "stop" : null),
    figure("Refused share", f.percent(refused, requests)),
    figure("In shadow", f.rate(mean("shadow")), "/s", mean("shadow") > 0 ? "trial" : null),
    figure("Latency p95", f.duration(latest("p95"))),
    figure("At the upstream", f.count(status?.in_flight), status?.held > 0 ? `${status.held} held` : null)));
}

export function draw() {
  if (points.length === 0) return;
  plots ??= {
    rate: plot(document.getElementById("plot-rate"), [
      { name: "all", tone: "water", fill: true }, { name: "refused", tone: "stop", fill: true, dash: [6, 3] },
    ], rateWords),
    latency: plot(document.getElementById("plot-latency"), [
      { name: "p50", tone: "water", fill: true }, { name: "p95", tone: "soft", dash: [4, 3] },
    ], latencyWords),
  };
  const at = points.map((p) => p.t);
  const ms = (name) => points.map((p) => (p.requests > 0 ? p[name] * 1000 : null));
  plots.rate([at, points.map((p) => p.requests), points.map((p) => p.refused)]);
  plots.latency([at, ms("p50"), ms("p95")]);
  render(document.getElementById("flow-aside"), `the last ${f.duration(points.length)}`);
  if (document.querySelector("#flow .twin").open) render(document.getElementById("flow-table"), twin());
}

const most = (list) => list.reduce((m, n) => Math.max(m, n ?? 0), 0);

const rateWords = ([at, all, refused]) =>
  `Plot of requests per second over ${f.duration(at.length)}: at most ${f.count(most(all))}, refused at most ${f.count(most(refused))}. The table below says the same.`;

const latencyWords = ([at, p50, p95]) =>
  `Plot of latency over ${f.duration(at.length)}: median at most ${f.duration(most(p50) / 1000)}, 95th percentile at most ${f.duration(most(p95) / 1000)}. The table below says the same.`;

const TEN = 10; // seconds a row of the table stands for

// twin says by ten seconds what the plots show, the newest first.
function twin() {
  const rows = [];
  for (const p of points) {
    const t = p.t - (p.t % TEN);
    if (rows.at(-1)?.t !== t) rows.push({ t, requests: 0, refused: 0, shadow: 0, p50: 0, p95: 0 });
    const row = rows.at(-1);
    for (const name of ["requests", "refused", "shadow"]) row[name] += p[name];
    for (const name of ["p50", "p95"]) row[name] = Math.max(row[name], p[name]);
  }
  const sum = (head, name) => ({ head, num: true, cell: (r) => f.count(r[name]) });
  const wait = (head, name) => ({ head, num: true, cell: (r) => (r.requests > 0 ? f.duration(r[name]) : f.none) });
  return table({
    caption: "Requests, refusals and latency, ten seconds a row, the newest first", rows: rows.reverse(), key: (r) => r.t, name: "plain",
    columns: [
      { head: "From", main: true, slim: true, cell: (r) => f.time(r.t * 1000) },
      sum("Requests", "requests"), sum("Refused", "refused"), sum("Shadow", "shadow"), wait("p50, at most", "p50"), wait("p95, at most", "p95"),
    ],
  });
}
