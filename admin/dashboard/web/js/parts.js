// The pieces that panels are made of. Each takes values and returns a description for dom.js.
import { h } from "./dom.js";
import { time } from "./format.js";
import { plain } from "./plain.js";

// table describes a table with a caption. Roles are spelled out: on a narrow screen a row is laid out as a
// card, which would otherwise take them away. A column is {head, cell(row)} and what is true of it: main (it
// names the row), num, wide (a line of its own in a card), slim (never broken), rank (left out of a card),
// quiet (its head is only heard), as (a class of its own), sort {active, choose()}.
export function table({ caption, columns, rows, key, name }) {
  const line = (row, i) => h("tr", { role: "row", key: key ? key(row, i) : i },
    columns.map((c) => h(c.main ? "th" : "td", {
      scope: c.main ? "row" : null, role: c.main ? "rowheader" : "cell", class: kind(c), "data-label": c.quiet || c.main ? null : c.head,
    }, c.cell(row, i))));
  return h("table", { role: "table", class: name, key: "table" },
    h("caption", { class: "sr" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(headOf))),
    h("tbody", { role: "rowgroup" }, rows.map(line)));
}

const headOf = (c) => h("th", { scope: "col", role: "columnheader", class: kind(c), "aria-sort": c.sort?.active ? "descending" : null },
  c.sort ? h("button", { type: "button", class: "sort", onclick: c.sort.choose }, c.head, h("span", { "aria-hidden": "true" }, c.sort.active ? " ▾" : " ▹")) : h("span", { class: c.quiet ? "sr" : null }, c.head));

const kind = (c) => [c.num && "num", c.wide && "wide", c.slim && "slim", c.rank && "first", c.as].filter(Boolean).join(" ") || null;

// empty says that there is nothing, and why that is so or what to do about it.
export const empty = (title, ...text) => h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), text.length > 0 && h("p", null, text));

// waiting holds the place of what is being asked for.
export const waiting = () => h("div", { class: "waiting" }, h("span", { class: "sr" }, "Loading"), [0, 1, 2].map((i) => h("i", { key: i, "aria-hidden": "true" })));

export const broken = (error, again) => h("div", { class: "empty broken" },
  h("p", { class: "empty-title" }, "This part could not be read"),
  h("p", { class: "mono" }, error.message),
  again && h("button", { type: "button", class: "quiet small", onclick: again }, "Try again"));

// bar shows a part of a whole. The number beside it says the same.
export const bar = (part, all, tone) => h("span", { class: "bar " + (tone ?? ""), "aria-hidden": "true" }, h("i", { vars: { width: share(part, all) } }));

const share = (part, all) => (all > 0 ? Math.max(0, Math.min(100, (100 * part) / all)).toFixed(2) : "0") + "%";

// gauge shows how high a counter stands below its limit, the crest.
export const gauge = (used, limit, tone) => h("span", { class: "gauge " + (tone ?? toneOf(used, limit)), "aria-hidden": "true" }, h("i", { vars: { width: share(used, limit) } }));

function toneOf(used, limit) {
  if (used >= limit) return "full";
  return used >= 0.8 * limit ? "near" : "";
}

export const tag = (text, tone) => h("span", { class: "tag " + (tone ?? "") }, text);

// spark draws a row of numbers; its words are for those who do not see it.
export function spark(numbers, words) {
  const top = Math.max(...numbers, 1), step = 100 / Math.max(numbers.length - 1, 1);
  const points = numbers.map((n, i) => `${(i * step).toFixed(1)},${(22 - (20 * n) / top).toFixed(1)}`);
  return h("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": words },
    h("path", { class: "fill", d: `M0,24L${points.join("L")}L100,24Z` }),
    h("path", { class: "stroke", d: `M${points.join("L")}`, "vector-effect": "non-scaling-stroke" }));
}

// faults shows findings, each with its cure.
export const faults = (list) => h("ul", { key: "findings", class: "findings" }, list.map((x) => h("li", { key: x.code },
  h("div", { class: "headline" }, h("strong", { class: "mono" }, x.code), h("span", { class: "note" }, "since ", time(x.since))),
  h("p", null, x.text),
  x.edit && edit(x.edit, "configuration that mends " + x.code))));

// edit shows lines of a configuration, to be copied.
export function edit(text, label) {
  return h("div", { class: "edit" },
    h("pre", { tabindex: 0, role: "group", "aria-label": label }, text),
    h("button", { type: "button", class: "quiet small", onclick: (e) => copy(text, e.currentTarget), "aria-label": "Copy: " + label }, "Copy"));
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    say("Selected. Copy it with the keyboard.");
  }
}

// say tells those who listen what changed, for what matters only.
export function say(words) {
  const said = document.getElementById("said"), text = plain(words);
  if (said.textContent === text) said.textContent = "";
  said.textContent = text;
}

// facts is a short list of names and values.
export const facts = (...pairs) => h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value, note]) =>
  h("div", { key: name }, h("dt", null, name), h("dd", null, value, note && h("span", { class: "soft" }, " ", note)))));

