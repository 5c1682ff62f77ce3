// The admin API. The token lives in this tab: in memory and in sessionStorage, and in one header field.
const KEPT = "weir-token";
const PATIENCE = 8000; // ms

let token = "";
try { token = sessionStorage.getItem(KEPT) ?? ""; } catch { /* memory alone */ }

// A Refusal is an answer that is not the one that was asked for. Status 0: there was no answer.
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const hasToken = () => token !== "";

// keepToken takes over a token, or forgets the one there was.
export function keepToken(t) {
  token = t;
  try {
    if (t === "") sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, t);
  } catch { /* memory alone */ }
}

// ask returns the body of the answer, or throws a Refusal.
export async function ask(path, { method = "GET", body } = {}) {
  const headers = { Accept: "application/json" };
  if (token !== "") headers.Authorization = "Bearer " + token;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch("/api/v1/" + path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(PATIENCE),
    });
  } catch (e) {
    throw new Refusal(0, "gone", e.name === "TimeoutError" ? "Weir does not answer" : "Weir cannot be reached");
  }
  if (!answer.ok) throw await refusal(answer);
  try {
    return await answer.json();
  } catch {
    throw new Refusal(0, "gone", "Weir's answer broke off");
  }
}

async function refusal(answer) {
  const problem = await answer.json().catch(() => ({}));
  const text = problem.detail || problem.title || `HTTP status ${answer.status}`;
  return new Refusal(answer.status, problem.code ?? "", [text, ...(problem.errors ?? [])].join("\n"));
}

export const clientPath = (key) => "clients/" + encodeURIComponent(key);
