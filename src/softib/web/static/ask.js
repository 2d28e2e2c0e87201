// REST, and elements made of text (never of HTML: names come from files).
export const $ = (id) => document.getElementById(id);

export async function ask(path) {
  const answer = await fetch(`/api/v1/${path}`);
  const body = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (!answer.ok) throw new Error(typeof body.detail === "string" ? body.detail : answer.statusText);
  return body;
}

export function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString()} ${n === 1 ? one : many}`;
export const octets = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
export const moment = (seconds) => new Date(seconds * 1000).toLocaleString();
