// How a request would be treated: the form, and every step of the answer.
import { h, render } from "../dom.js";
import * as f from "../format.js";
import { ask } from "../api.js";
import { gauge, say, table, tag, waiting } from "../parts.js";

const byId = (id) => document.getElementById(id);

// start makes the form ask. Nothing that is typed leaves the page but to the API.
export function start() {
  const result = byId("explain-result");
  render(result, invitation());
  byId("explain-form").addEventListener("submit", async (e) => {
    e.preventDefault();
    render(result, waiting());
    try {
      const x = await ask("explain", { method: "POST", body: question() });
      render(result, answer(x));
      say(`${headline(x)}, for ${x.client.key}.`);
    } catch (error) {
      say("That cannot be explained: " + error.message);
      render(result, h("div", { class: "empty broken", key: "broken" }, h("p", { class: "empty-title" }, "That cannot be explained"), h("p", { class: "mono" }, error.message)));
    }
  });
}

const invitation = () => h("div", { class: "empty", key: "invitation" }, h("p", { class: "empty-title" }, "Ask about a request"),
  h("p", null, "You see who Weir takes the client for, hop by hop, which rule wins and why, and what every limit has left."));

// question reads the form. A path alone is a path of this host.
function question() {
  const url = byId("x-url").value.trim();
  const headers = byId("x-headers").value.split("\n").filter((line) => line.trim() !== "").map((line) => {
    const colon = line.indexOf(":");
    return colon < 0 ? { name: line.trim(), value: "" } : { name: line.slice(0, colon).trim(), value: line.slice(colon + 1).trim() };
  });
  return { method: byId("x-method").value, url: url.startsWith("/") ? "http://localhost" + url : url, headers, remote: byId("x-remote").value.trim() };
}

const headline = (x) => `${x.status} ${x.action}: ${x.reason}`;

function answer(x) {
  const refused = x.action !== "pass" && x.action !== "tag";
  return h("div", { class: "answer " + (refused ? "refused" : ""), key: "answer" },
    h("h3", null, headline(x), x.degraded && [" ", tag("degraded", "trial")]),
    h("h4", null, "Who asks"),
    h("p", null, h("strong", { class: "mono" }, x.client.key), h("span", { class: "soft" }, ` ${f.source(x.client.source)} (${x.client.source})`)),
    hops(x.client),
    x.notes.length > 0 && h("ul", { class: "notes" }, x.notes.map((n) => h("li", { key: n.code }, h("span", { class: "mono" }, n.code), " ", n.text))),
    h("h4", null, "Which rule"),
    x.rule === null ? h("p", null, "None was looked for.") : h("p", null, h("strong", null, x.rule), `: ${x.why}`),
    h("h4", null, "What each limit says"), limits(x.limits),
    x.shadow.length > 0 && h("p", null, tag("shadow", "trial"), ` would refuse: ${x.shadow.join(", ")}`),
    h("p", { class: "note" }, wafWords(x.waf)));
}

// hops shows the way from the peer outwards. The last one is the client, unless nobody was found.
const hops = (client) => h("ol", { class: "hops", "aria-label": "Hops, from the one that connects outwards" }, client.hops.map((hop, i) => h("li", { key: i, class: hopClass(hop, i, client) },
  h("span", null, h("span", { class: "mono" }, hop.address), hopClass(hop, i, client) === "client" && [" ", tag("the client", "water")]),
  h("span", { class: "soft" }, `${hop.trusted ? "trusted" : "not trusted"}, named by ${hop.by}`))));

function hopClass(hop, i, client) {
  if (hop.address === client.address && i === client.hops.length - 1) return "client";
  return hop.trusted ? "trusted" : null;
}

function limits(list) {
  if (list.length === 0) return h("p", null, "Nothing is counted.");
  return table({
    caption: "Limits that this request meets", rows: list, key: (l) => l.name,
    columns: [
      { head: "Limit", main: true, wide: true, cell: (l) => [l.name, " ", l.mode !== "enforce" && tag(l.mode, "trial"), h("span", { class: "under mono" }, l.key)] },
      { head: "Rate", slim: true, cell: (l) => [h("span", { class: "mono" }, l.rate), h("span", { class: "under" }, l.algorithm)] },
      { head: "Left", cell: (l) => [gauge(l.limit - l.remaining, l.limit, l.mode === "enforce" ? undefined : "trial"), h("span", { class: "under mono" }, `${f.count(l.remaining)} of ${f.count(l.limit)}`)] },
      { head: "Says", slim: true, cell: (l) => [tag(l.allowed ? "passes" : "refuses", l.allowed ? "good" : "stop"), l.retry_after > 0 && h("span", { class: "under" }, `for ${f.duration(l.retry_after)}`)] },
    ],
  });
}

const wafWords = (w) => (w.verdict === "off" ? "Nothing is inspected." : `Firewall: ${w.verdict}, ${w.ruleset ?? ""}, ${w.inspected ?? ""} ${w.rules.join(", ")}`);
