// A plot over time. What it shows stands in a table, too: a canvas says nothing to who does not see it.
import uPlot from "../vendor/uPlot.esm.js";

const colour = (name) => {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const c = getComputedStyle(probe).color;
  probe.remove();
  return c;
};

const faint = (c, alpha) => c.replace(/^rgb\(([^)]+)\)$/, `rgba($1, ${alpha})`);

// alone are the points that no line leads to: seconds with requests between seconds without.
const alone = (u, series) => u.data[series].flatMap((y, i, all) => ((y ?? null) !== null && (all[i - 1] ?? null) === null && (all[i + 1] ?? null) === null ? [i] : []));

// A plot of series [{name, tone, fill, dash}] in a container, drawn anew when theme or width change.
export function plot(container, series, words) {
  let data = [[], ...series.map(() => [])], drawn = null;
  container.setAttribute("role", "img");

  const build = () => {
    drawn?.destroy();
    const ink = colour("soft"), line = colour("line");
    const axis = { stroke: ink, font: "11px 'Plex Mono', monospace", grid: { stroke: line, width: 1 }, ticks: { show: false } };
    drawn = new uPlot({
      width: container.clientWidth, height: container.clientHeight, legend: { show: false },
      cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
      padding: [8, 24, 0, 0],
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
      axes: [
        { ...axis, space: 70, size: 26, values: (_, at) => at.map((t) => new Date(t * 1000).toTimeString().slice(0, 8)) },
        { ...axis, size: 44, space: 30, values: (_, at) => at.map((v) => (v >= 1e4 ? v / 1e3 + "k" : String(v))) },
      ],
      series: [{}, ...series.map((s) => {
        const c = colour(s.tone);
        return { label: s.name, stroke: c, width: s.dash ? 1.5 : 2, dash: s.dash, points: { show: true, size: 4, fill: c, filter: alone }, fill: s.fill ? faint(c, 0.16) : undefined };
      })],
    }, data, container);
  };
  const fit = () => drawn?.setSize({ width: container.clientWidth, height: container.clientHeight });
  new ResizeObserver(fit).observe(container);
  document.documentElement.addEventListener("theme", () => drawn && build());

  // show takes columns: times in seconds, then one array for each series.
  return function show(columns) {
    data = columns;
    container.setAttribute("aria-label", words(columns));
    if (drawn) drawn.setData(data);
    else build();
  };
}
