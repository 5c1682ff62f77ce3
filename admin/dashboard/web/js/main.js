// The page's own life: who asks, what is asked how often, and what is said when there is no answer.
import { render, h } from "./dom.js";
import { ask, hasToken, keepToken } from "./api.js";
import { broken, faults, say, waiting } from "./parts.js";
import { plain } from "./plain.js";
import { follow } from "./rail.js";
import { acts as makeActs } from "./acts.js";
import * as f from "./format.js";
import * as flow from "./panels/flow.js";
import * as talkers from "./panels/talkers.js";
import * as rules from "./panels/rules.js";
import * as shadow from "./panels/shadow.js";
import * as decisions from "./panels/decisions.js";
import * as blocked from "./panels/blocked.js";
import * as chain from "./panels/chain.js";
import * as store from "./panels/store.js";
import * as bans from "./panels/bans.js";
import * as config from "./panels/config.js";
import * as audit from "./panels/audit.js";
import * as explain from "./panels/explain.js";

const byId = (id) => document.getElementById(id);
const place = (name) => document.querySelector(`[data-panel="${name}"]`);

// view is what the operator chose, and what panels know of each other.
const view = { by: "client", window: "1m", sort: "requests", many: false, filter: "", show: "refused", session: null, rules: null };

// A panel asks for its path every so many ms, and shows what it got.
const panels = [
  { name: "talkers", every: 4000, ...talkers },
  { name: "rules", every: 6000, ...rules, got: foundInRules },
  { name: "shadow", every: 6000, ...shadow },
  { name: "decisions", every: 4000, ...decisions },
  { name: "blocked", every: 10000, ...blocked, needs: "blocked" },
  { name: "chain", every: 10000, ...chain, got: foundInChain },
  { name: "store", every: 4000, ...store, got: foundInStatus },
  { name: "bans", every: 10000, ...bans, needs: "bans" },
  { name: "config", every: 6000, ...config },
  { name: "audit", every: 15000, ...audit },
];
const named = (name) => panels.find((p) => p.name === name);

const UNSEEN = 5; // a panel that is out of sight, and that nothing else shows a part of, asks so many times less often
const TICK = 2000; // ms, of the flow
const RETRIES = [1000, 2000, 4000, 8000, 15000]; // ms until the next try, while there is no answer

let failures = 0, answeredAt = 0, timer = 0, turn = 0, running = false, about = null;

const acts = makeActs(view, {
  choose: (name, value) => { view[name] = value; again(named("talkers")); },
  again: (...names) => names.map(named).forEach(again),
});

// begin finds out who asks, and starts.
async function begin() {
  try {
    view.session = await ask("session");
  } catch (error) {
    if (error.status === 401) return gate(hasToken() ? "Weir does not know this token." : "");
    return lost(error, begin);
  }
  byId("gate").hidden = true;
  byId("page").hidden = false;
  byId("leave").hidden = !hasToken();
  for (const part of document.querySelectorAll("[data-needs]")) part.hidden = !view.session[part.dataset.needs];
  for (const p of panels) Object.assign(p, { due: 0, data: undefined, error: null });
  panels.forEach(draw);
  running = true;
  tick();
}

// gate asks for a token, on a page that has shown nothing yet.
function gate(why) {
  keepToken("");
  byId("page").hidden = true;
  byId("banner").hidden = true;
  byId("gate").hidden = false;
  byId("gate-error").textContent = why;
  byId("token").value = "";
  byId("token").focus();
  state("closed", "Closed");
}

// lock leaves nothing of what was shown. The page begins anew, and asks for a token if it must.
function lock() {
  running = false;
  location.reload();
}

// tick asks for what is due, shows it, and plans the next time. A page that nobody looks at asks nothing.
async function tick() {
  const mine = ++turn;
  clearTimeout(timer);
  if (!running || document.hidden) return;
  try {
    flow.take(await ask(`series?seconds=${flow.since(Date.now())}`));
    flow.draw();
    await Promise.all(panels.filter(isDue).map(freshen));
    flow.figures(about);
  } catch (error) {
    if (mine !== turn) return;
    return error.status === 401 ? lock() : lost(error, tick);
  }
  if (mine !== turn) return; // another turn began meanwhile
  found();
  timer = setTimeout(tick, TICK);
}

function isDue(p) {
  if (p.needs && !view.session[p.needs]) return false;
  return Date.now() >= p.due;
}

// freshen asks for a panel's part. What concerns that part alone stays in it; what concerns all is thrown.
async function freshen(p) {
  p.due = Date.now() + p.every * (p.seen === false && !p.got ? UNSEEN : 1) - TICK / 2;
  const path = p.path(view);
  try {
    const data = await ask(path);
    if (path !== p.path(view)) return; // the operator chose something else meanwhile
    Object.assign(p, { data, error: null });
    p.got?.(data);
  } catch (error) {
    if (error.status === 0 || error.status === 401) throw error;
    p.error = error;
  }
  draw(p);
}

// again asks at once, because the operator did something.
const again = (p) => freshen(p).catch(() => tick());

function draw(p) {
  const at = place(p.name);
  if (p.needs && view.session && !view.session[p.needs]) render(at, p.absent?.());
  else if (p.error) render(at, broken(p.error, () => again(p)));
  else if (p.data === undefined) render(at, waiting());
  else show(p, at);
}

// show keeps to its part what goes wrong there.
function show(p, at) {
  try {
    render(at, p.show(p.data, view, acts));
  } catch (error) {
    render(at, broken(error));
  }
}

function state(name, text) {
  document.body.dataset.state = name;
  byId("link-text").textContent = text;
}

// found notes that Weir answers, and says so if it did not before.
function found() {
  if (failures > 0) say("Weir answers again.");
  failures = 0;
  answeredAt = Date.now();
  byId("banner").hidden = true;
  state("live", view.session.writes ? "Live" : "Live, read only");
  byId("link").title = plain(view.session.read_only);
}

// lost notes that Weir does not answer: what is shown stays, marked as old, and another try is planned.
function lost(error, retry) {
  const wait = RETRIES[Math.min(failures, RETRIES.length - 1)];
  failures++;
  const old = answeredAt > 0 ? ` What you see is from ${f.time(answeredAt)}.` : "";
  const text = plain(`${error.message}.${old} Trying again until it answers.`);
  const banner = byId("banner");
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = false;
  state("stale", answeredAt > 0 ? "Not answering" : "No answer yet");
  clearTimeout(timer);
  timer = setTimeout(retry, wait);
}

// foundInRules keeps what the shadow limits are compared with.
function foundInRules(rules) {
  view.rules = rules;
  draw(named("shadow"));
}

// foundInStatus keeps what other places show of the status, and says when the store or the firewall changes.
function foundInStatus(status) {
  const open = status.store.breaker_open;
  if (about && about.store.breaker_open !== open) say(open ? "The store does not answer any more." : "The store answers again.");
  const fresh = status.firewall.filter((x) => about && !about.firewall.some((y) => y.code === x.code)).map((x) => x.code);
  if (fresh.length > 0) say(`Firewall: ${fresh.join(", ")}.`);
  render(byId("firewall-faults"), status.firewall.length > 0 && faults(status.firewall));
  badge("blocked", status.firewall.length || "");
  about = status;
  badge("store", open ? "!" : "");
  render(byId("about"), `${status.version} · configuration ${status.config_hash.slice(0, 8)}`);
}

// foundInChain says what is newly wrong about the picture of the proxies.
function foundInChain(diagnosis) {
  const codes = diagnosis.findings.map((x) => x.code);
  const before = named("chain").codes ?? codes;
  const fresh = codes.filter((c) => !before.includes(c));
  if (fresh.length > 0) say(`Client chain: ${fresh.join(", ")}.`);
  named("chain").codes = codes;
  badge("chain", codes.length || "");
}

function badge(section, text) {
  const link = document.querySelector(`.rail a[href="#${section}"]`);
  const name = link.dataset.name ??= link.textContent;
  render(link, h("span", null, name), text !== "" && h("span", { class: "badge" }, text, h("span", { class: "sr" }, " to look at")));
}

function listen() {
  byId("gate-form").addEventListener("submit", (e) => {
    e.preventDefault();
    keepToken(byId("token").value.trim());
    byId("token").value = ""; // nothing on the page knows it
    begin();
  });
  byId("leave").addEventListener("click", () => {
    keepToken("");
    lock();
  });
  for (const name of ["by", "window", "show"]) {
    for (const input of document.querySelectorAll(`input[name="${name}"]`)) {
      input.addEventListener("change", () => {
        view[name] = input.value;
        again(named(name === "show" ? "decisions" : "talkers"));
      });
    }
  }
  byId("filter").addEventListener("input", (e) => {
    view.filter = e.target.value;
    draw(named("talkers"));
  });
  document.querySelector("#flow .twin").addEventListener("toggle", () => flow.draw());
  document.addEventListener("visibilitychange", () => tick());
  follow((section, seen) => {
    for (const panel of panels.filter((p) => place(p.name)?.closest("section").id === section)) {
      if (seen && panel.seen === false) panel.due = 0;
      panel.seen = seen;
    }
  });
}

listen();
explain.start();
panels.forEach(draw);
begin();
