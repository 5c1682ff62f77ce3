// Numbers, times and names as people read them. Every function takes a value and returns text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit" });

export const none = "–";

const known = (n) => typeof n === "number" && Number.isFinite(n);

// count shortens from ten thousand on: 9,999 and then 10.0k.
export function count(n) {
  if (!known(n)) return none;
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (n >= size * (size === 1e3 ? 10 : 1)) return (n / size).toFixed(n >= 100 * size ? 0 : 1) + unit;
  }
  return whole.format(n);
}

export function rate(n) {
  if (!known(n)) return none;
  return n > 0 && n < 10 ? n.toFixed(1) : count(Math.round(n));
}

// percent never says 0 % or 100 % of what is not that.
export function percent(part, all) {
  if (!known(part) || !known(all) || all <= 0) return none;
  const p = (100 * part) / all;
  if (p > 0 && p < 0.1) return "<0.1 %";
  if (p < 100 && p > 99.9) return ">99.9 %";
  return (p < 10 && p > 0 ? p.toFixed(1) : p.toFixed(0)) + " %";
}

// duration reads seconds.
export function duration(s) {
  if (!known(s)) return none;
  if (s > 0 && s < 0.001) return (s * 1e6).toFixed(0) + " µs";
  if (s < 1) return (s * 1e3).toFixed(s < 0.01 && s > 0 ? 1 : 0) + " ms";
  if (s < 60) return (s < 10 ? s.toFixed(1) : s.toFixed(0)) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

// time reads RFC 3339 or milliseconds; what is not of today comes with its day.
export function time(t, now = Date.now()) {
  const at = new Date(t);
  if (Number.isNaN(at.getTime())) return none;
  return new Date(now).toDateString() === at.toDateString() ? clock.format(at) : day.format(at);
}

const sources = {
  direct: "connects itself",
  forwarded: "named by a proxy",
  header: "named by the edge",
  all_trusted: "internal",
  peer_only: "proxy, no header",
  unresolved: "not resolved",
};

// word returns what is said for a name, or the name itself. What every object has is no word of ours.
export const word = (words, name) => (Object.hasOwn(words, name) ? words[name] : name);

// source says in words how a client was found.
export const source = (s) => word(sources, s) ?? none;
